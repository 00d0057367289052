/**
 * What engine nodes ask of the server (`contract/processes/engine-node.ts`): to be known, and the files of what they serve.
 *
 * A node is known once it was reached at the address that it gives: nobody is sent to an address that does not know the node's token.
 */
import { AppError, ConflictError, NotFoundError } from '#base/errors/errors.js'
import { packageVersion } from '#base/util/package-root.js'
import {
  type EngineAdapterFiles,
  type EngineNodeLease,
  type EngineNodeReport,
  engineNodeIdentitySchema,
} from '#contract/processes/engine-node.js'
import type { BaseModelFiles } from '#contract/processes/worker.js'
import type { EngineSetting } from '#contract/settings/service.js'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import { type OpenedBlob, openOrLink } from '#service/storage/blobs.js'
import { ownerOf } from './access/tenant.js'
import type { Principal, ServiceContext } from './context.js'

export interface EngineNodeService {
  /**
   * @throws {AppError} `engines_local` where this server computes itself, `worker_version`, `base_model_differs`, `engine_node_unreachable`;
   *   {NotFoundError} `base_model_not_found`
   */
  report(principal: Principal, report: EngineNodeReport): Promise<EngineNodeLease>
  /** @throws {NotFoundError} `base_model_not_found` */
  baseModelFiles(name: string): Promise<BaseModelFiles>
  openBaseModelFile(name: string, file: string): ReturnType<ServiceContext['baseModelFiles']['open']>
  /** @throws {NotFoundError} `adapter_not_found` unless nodes of the key were asked to serve it */
  adapterFiles(principal: Principal, digest: string): EngineAdapterFiles
  openAdapterFile(principal: Principal, digest: string, file: string, mayLink: boolean): Promise<OpenedBlob>
  list(principal: Principal): readonly EngineNodeInfo[]
}

type Context = Pick<ServiceContext, 'blobs' | 'baseModels' | 'baseModelFiles' | 'engineNodes'>

export interface EngineNodeRules {
  readonly engines: EngineSetting
  readonly leaseMs: number
  readonly reportMs: number
}

/** What a node may take to say who it is. */
const REACH_MS = 5000
const MAX_IDENTITY_BYTES = 64 * 1024

export function createEngineNodeService(context: Context, rules: EngineNodeRules): EngineNodeService {
  const { blobs, engineNodes } = context
  const version = packageVersion()

  function baseModelOf(name: string): ServiceContext['baseModels'][number] {
    const base = context.baseModels.find((each) => each.name === name)
    if (base !== undefined) return base
    throw new NotFoundError('base_model_not_found', `base model "${name.slice(0, 200)}" is not served here`, {
      hint: 'trainyard base-models list shows those that are',
    })
  }

  function adapterOf(principal: Principal, digest: string) {
    const adapter = engineNodes.offered(digest, ownerOf(principal))
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
      const before = engineNodes.get(report.id)
      const owner = ownerOf(principal)
      const isSame = before !== null && before.report.url === report.url && before.report.token === report.token
      if (before !== null && !isOwnedBy(before.owner, owner)) {
        throw new ConflictError('engine_node_taken', 'an engine node of another key has this id')
      }
      if (!isSame) await assertReached(report)
      engineNodes.note(report, owner)
      return { report_seconds: rules.reportMs / 1000, lease_seconds: rules.leaseMs / 1000 }
    },
    baseModelFiles: (name) => context.baseModelFiles.describe(baseModelOf(name)),
    openBaseModelFile: (name, file) => context.baseModelFiles.open(baseModelOf(name), file),
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
      return engineNodes
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

/** @throws {AppError} `engine_node_unreachable` */
async function assertReached({ id, url, token }: EngineNodeReport): Promise<void> {
  let reason: string
  try {
    const response = await fetch(new URL('/v1/node', url), {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(REACH_MS),
      redirect: 'error',
    })
    const identity = engineNodeIdentitySchema.safeParse(await readJson(response))
    if (response.ok && identity.success && identity.data.id === id) return
    reason = 'something else answers there'
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    reason = cause instanceof Error ? cause.message : String(cause)
  }
  throw new AppError(
    'conflict',
    'engine_node_unreachable',
    `the server does not reach the engine node at ${url}: ${reason}`,
    {
      hint: 'give the node the address by which the server reaches it: --listen and --url',
    },
  )
}

/** Whoever answers there may send what never ends. */
async function readJson({ body }: Response): Promise<unknown> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
    length += part.length
    if (length > MAX_IDENTITY_BYTES) throw new RangeError(`an answer of more than ${MAX_IDENTITY_BYTES} bytes`)
    parts.push(part)
  }
  return JSON.parse(Buffer.concat(parts).toString('utf8'))
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
