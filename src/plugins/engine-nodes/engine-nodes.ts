/**
 * What engine nodes ask of the server (`contract/processes/engine-node.ts`): to be known, and the files of what they serve.
 *
 * A node is known once it was reached at the address that it gives: nobody is sent to an address that does not know the node's
 * token. Where that is is the operator's to say: by his key, or by naming the host. To anybody else every failure is the same
 * sentence, so that nobody looks into a network by it.
 */
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { AppError, ConflictError, NotFoundError } from '#base/errors/errors.js'
import { packageVersion } from '#base/util/package-root.js'
import { requestOptionsAt } from '#base/util/public-address.js'
import {
  type EngineAdapterFiles,
  type EngineNodeLease,
  type EngineNodeReport,
  engineNodeIdentitySchema,
} from '#contract/processes/engine-node.js'
import type { BaseModelFiles } from '#contract/processes/worker.js'
import type { EngineSetting } from '#contract/settings/service.js'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import { isOperator, ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { type OpenedBlob, openOrLink } from '#service/storage/blobs.js'
import type { EngineNodeHosts } from './engine-node-hosts.js'
import type { KnownNodes, NodePlace } from './known-nodes.js'

interface EngineNodeService {
  /**
   * @throws {AppError} `engines_local` where this server computes itself, `worker_version`, `base_model_differs`,
   * `engine_node_unreachable`;
   *   {NotFoundError} `base_model_not_found`
   */
  report(principal: Principal, report: EngineNodeReport): Promise<EngineNodeLease>
  /** @throws {NotFoundError} `base_model_not_found` */
  baseModelFiles(name: string): Promise<BaseModelFiles>
  openBaseModelFile(name: string, file: string, from: number): ReturnType<ServiceContext['baseModelFiles']['open']>
  /** @throws {NotFoundError} `adapter_not_found` unless nodes of the key were asked to serve it */
  adapterFiles(principal: Principal, digest: string): EngineAdapterFiles
  openAdapterFile(principal: Principal, digest: string, file: string, mayLink: boolean): Promise<OpenedBlob>
  list(principal: Principal): readonly EngineNodeInfo[]
}

type Context = Pick<ServiceContext, 'blobs' | 'baseModels' | 'baseModelFiles' | 'logger'> & {
  readonly nodes: KnownNodes
}

export interface EngineNodeRules {
  readonly engines: EngineSetting
  readonly leaseMs: number
  readonly reportMs: number
  /** Where nodes of tenants may be. */
  readonly hosts: EngineNodeHosts
}

/** What a node may take to say who it is. */
const REACH_MS = 5000
const MAX_IDENTITY_BYTES = 64 * 1024

export function createEngineNodeService(context: Context, rules: EngineNodeRules): EngineNodeService {
  const { blobs, nodes, logger } = context
  const version = packageVersion()

  function baseModelOf(name: string): ServiceContext['baseModels'][number] {
    const base = context.baseModels.find((each) => each.name === name)
    if (base !== undefined) return base
    throw new NotFoundError('base_model_not_found', `base model "${name.slice(0, 200)}" is not served here`, {
      hint: 'trainyard base-models list shows those that are',
    })
  }

  function adapterOf(principal: Principal, digest: string) {
    const adapter = nodes.offered(digest, ownerOf(principal))
    if (adapter !== null) return adapter
    throw new NotFoundError('adapter_not_found', 'no engine node was asked to serve this adapter')
  }

  async function assertFits(report: EngineNodeReport): Promise<void> {
    const given = report.versions['trainyard'] ?? 'none'
    if (minorOf(given) !== minorOf(version)) {
      throw new ConflictError(
        'worker_version',
        `this server is version ${version}, the engine node is version ${given}`,
        {
          hint: `install trainyard ${version} on the node's machine and start it again`,
        },
      )
    }
    const { name, digest } = report.base_model
    const files = await context.baseModelFiles.describe(baseModelOf(name))
    if (files.digest !== digest) {
      throw new ConflictError(
        'base_model_differs',
        `base model "${name}" of the engine node has other files than this server's`,
        {
          hint: 'start the node again: it fetches the files that are served now',
        },
      )
    }
  }

  /** @throws {AppError} `engine_node_unreachable` */
  async function reachedPlace(principal: Principal, report: EngineNodeReport): Promise<NodePlace> {
    const isOperators = isOperator(principal)
    const address = isOperators ? null : await rules.hosts.addressOf(new URL(report.url), principal.keyId)
    const isOpen = isOperators || address !== null
    const reason = isOpen ? await obstacleTo(report, address) : 'its host is not named by --engine-node-host'
    if (reason === null) return { address, isOperators }
    logger.info({ url: report.url, key_id: principal.keyId, reason }, 'engine_node.unreachable')
    throw unreachable(report.url, isOperators ? `: ${reason}` : '')
  }

  return {
    report: async (principal, report) => {
      if (rules.engines === 'local') {
        throw new ConflictError(
          'engines_local',
          'this server computes answers itself and sends nothing to engine nodes',
          {
            hint: 'start it with --engines remote, or with --engines auto',
          },
        )
      }
      await assertFits(report)
      const before = nodes.get(report.id)
      const owner = ownerOf(principal)
      const isSame = before !== null && before.report.url === report.url && before.report.token === report.token
      if (before !== null && !isOwnedBy(before.owner, owner)) {
        throw new ConflictError('engine_node_taken', 'an engine node of another key has this id')
      }
      const place = isSame ? before.place : await reachedPlace(principal, report)
      nodes.note({ report, owner, place })
      return { report_seconds: rules.reportMs / 1000, lease_seconds: rules.leaseMs / 1000 }
    },
    baseModelFiles: (name) => context.baseModelFiles.describe(baseModelOf(name)),
    openBaseModelFile: (name, file, from) => context.baseModelFiles.open(baseModelOf(name), file, from),
    adapterFiles: (principal, digest) => {
      const { checkpoint, files } = adapterOf(principal, digest)
      return { digest, checkpoint, files: Object.entries(files).map(([name, { sha256 }]) => ({ name, sha256 })) }
    },
    openAdapterFile: async (principal, digest, file, mayLink) => {
      const found = adapterOf(principal, digest).files[file]
      if (found === undefined)
        throw new NotFoundError('file_not_found', `the adapter has no file "${file.slice(0, 100)}"`)
      return openOrLink(blobs, found.sha256, { mayLink })
    },
    list: (principal) => {
      const { entity, project } = principal
      return nodes
        .list()
        .filter(
          ({ owner }) =>
            owner.entity === entity && (project === null || owner.project === null || owner.project === project),
        )
        .map(({ report }) => toInfo(report))
    },
  }
}

function isOwnedBy(
  a: { entity: string; project: string | null },
  b: { entity: string; project: string | null },
): boolean {
  return a.entity === b.entity && a.project === b.project
}

/** `0.1` of `0.1.2`. */
function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}

/** Why the node is not reached there; null: it is. */
async function obstacleTo({ id, url, token }: EngineNodeReport, address: string | null): Promise<string | null> {
  try {
    const { status, text } = await askIdentity(new URL('/v1/node', url), token, address)
    const identity = engineNodeIdentitySchema.safeParse(JSON.parse(text))
    return status === 200 && identity.success && identity.data.id === id ? null : 'something else answers there'
  } catch (error) {
    return error instanceof SyntaxError ? 'something else answers there' : String(error)
  }
}

/** Redirects are not followed. Whoever answers there may send what never ends. */
function askIdentity(
  url: URL,
  token: string,
  address: string | null,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const at = requestOptionsAt(url, address)
    const options = {
      ...at,
      headers: { ...at.headers, authorization: `Bearer ${token}` },
      agent: false,
      signal: AbortSignal.timeout(REACH_MS),
    }
    const request = (url.protocol === 'https:' ? requestHttps : requestHttp)(options, (response) => {
      const parts: Buffer[] = []
      let length = 0
      response.on('data', (part: Buffer) => {
        length += part.length
        parts.push(part)
        if (length > MAX_IDENTITY_BYTES) response.destroy(new RangeError('an answer that is too long'))
      })
      response.once('error', reject)
      response.once('end', () => {
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString('utf8') })
      })
    })
    request.once('error', reject)
    request.end()
  })
}

function unreachable(url: string, reason: string): AppError {
  return new AppError(
    'conflict',
    'engine_node_unreachable',
    `the server does not reach the engine node at ${url}${reason}`,
    {
      hint: 'give the node the address by which the server reaches it: --listen and --url; nodes of tenants need a host that the operator named: trainyard serve --engine-node-host HOST',
    },
  )
}

function toInfo(report: EngineNodeReport): EngineNodeInfo {
  const { id, name, url, engine, device, versions, context_length, slots, running, waiting } = report
  return {
    id,
    name,
    url,
    base_model: report.base_model.name,
    engine,
    device,
    versions,
    state: report.is_leaving ? 'leaving' : 'ready',
    context_length,
    slots,
    running,
    waiting,
    adapters: report.adapters.length,
  }
}
