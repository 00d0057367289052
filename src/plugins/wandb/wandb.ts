/**
 * The part of W&B's API that its own client needs, so that programs which upload training data, pull and fork checkpoints and
 * log metrics through it work with `WANDB_BASE_URL` pointed at this server.
 *
 * Two halves: GraphQL (`executeQuery` over the fields put together here) and bytes at signed addresses.
 * Source: the operations wandb 0.22 to 0.31 sends; a query that is not here is refused by name.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { Readable } from 'node:stream'
import { AppError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { JsonValue } from '#base/util/json.js'
import { maxBytesOf } from '#service/bodies/body-store.js'
import type { Principal } from '#service/operations/access/principal.js'
import { isOwn, requireScope } from '#service/operations/access/tenant.js'
import { MAX_UPLOAD_BYTES } from '#service/operations/files.js'
import { checkpointManifest } from './artifact-view.js'
import { artifactRootFields, projectArtifactFields } from './artifacts.js'
import { ARTIFACT_MANIFEST } from './bodies.js'
import {
  optionalText,
  ownEntity,
  ownProject,
  projectInfo,
  textOf,
  type WandbCall,
  type WandbContext,
} from './context.js'
import type { Arguments, executeQuery, Fields, GraphqlRequest } from './execute-query.js'
import { projectRunFields, runFields, storeStream } from './runs.js'
import { putArtifactFile, setArtifactManifest } from './storage/artifacts.js'
import { putRunFile } from './storage/runs.js'
import { ensureSecret } from './storage/secrets.js'
import { type FileStreamRequest, type Grant, type Ticket, ticketSchema } from './wire.js'

/**
 * Addresses the wandb client sends bytes to and fetches them from: they name what they are for and carry a signature, because
 * the client sends no key there.
 */
interface AddressSigner {
  /** A token for the query of the address, good for a day: the client may upload for hours. */
  sign(grant: Grant, entity: string): string
  /** @throws {AppError} `invalid_signature` for a token that is not ours or is too old */
  verify(token: string): Ticket
}

const LIFETIME_MS = 24 * 3600 * 1000

function createAddressSigner(secret: string, clock: Pick<Clock, 'nowMs'>): AddressSigner {
  const signatureOf = (payload: string) => createHmac('sha256', secret).update(payload).digest()
  return {
    sign: (grant, entity) => {
      const ticket = { grant, entity, expiresAtMs: clock.nowMs() + LIFETIME_MS }
      const payload = Buffer.from(JSON.stringify(ticket)).toString('base64url')
      return `${payload}.${signatureOf(payload).toString('base64url')}`
    },
    verify: (token) => {
      const [payload = '', signature = ''] = token.split('.')
      const given = Buffer.from(signature, 'base64url')
      const expected = signatureOf(payload)
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw invalid('is not signed here')
      const ticket = ticketSchema.safeParse(JSON.parse(Buffer.from(payload, 'base64url').toString()))
      if (!ticket.success || ticket.data.expiresAtMs < clock.nowMs()) throw invalid('is too old: ask for a new one')
      return ticket.data
    },
  }
}

function invalid(reason: string): AppError {
  return new AppError('permission', 'invalid_signature', `the address ${reason}`)
}

export interface WandbService {
  /** @param address where the client reaches this server, with its prefix and no slash at the end */
  graphql(principal: Principal, request: GraphqlRequest, address: string): ReturnType<typeof executeQuery>
  /** Stores lines of a run's files. */
  stream(principal: Principal, run: RunPath, request: FileStreamRequest): Promise<void>
  /** What a signed address allows, and whom. @throws {AppError} `invalid_signature` */
  verify(token: string): Promise<Ticket>
  /** Stores what a signed address takes. */
  put(ticket: Ticket, body: AsyncIterable<Uint8Array>): Promise<void>
  /** What a signed address gives. */
  open(ticket: Ticket): Promise<OpenBytes>
}

export interface RunPath {
  readonly entity: string
  readonly project: string
  readonly run: string
}

export interface OpenBytes {
  readonly bytes: Readable | Uint8Array
}

export function createWandbService(context: WandbContext): WandbService {
  const { db, blobs } = context
  let signer: Promise<AddressSigner> | null = null

  function getSigner(): Promise<AddressSigner> {
    signer ??= ensureSecret(db, 'wandb_addresses', context.ids.secret(32)).then((secret) =>
      createAddressSigner(secret, context.clock),
    )
    return signer
  }

  async function receive(body: AsyncIterable<Uint8Array>, maxBytes: number, md5?: string) {
    const hash = createHash('md5')
    async function* watch() {
      for await (const chunk of body) {
        hash.update(chunk)
        yield chunk
      }
    }
    const blob = await blobs.put(watch(), { maxBytes })
    const digest = hash.digest('base64')
    if (md5 !== undefined && md5 !== digest) {
      throw new InvalidRequestError(
        'digest_mismatch',
        `the body has MD5 ${digest}, the upload was announced with ${md5}`,
      )
    }
    return { blob, digest }
  }

  async function put(grant: Grant, body: AsyncIterable<Uint8Array>): Promise<void> {
    if (grant.kind === 'put_run_file') {
      const { blob } = await receive(body, MAX_UPLOAD_BYTES)
      return putRunFile(db, grant.runId, { name: grant.name, ...blob })
    }
    if (grant.kind === 'put_manifest') {
      const { blob } = await receive(body, maxBytesOf(ARTIFACT_MANIFEST, context.bodies.limits))
      return setArtifactManifest(db, grant.artifactId, blob.sha256)
    }
    if (grant.kind === 'put_artifact_file') {
      const { blob, digest } = await receive(body, MAX_UPLOAD_BYTES, grant.md5)
      return putArtifactFile(db, grant.artifactId, { name: grant.name, md5: digest, ...blob })
    }
    throw new InvalidRequestError('method_not_allowed', 'Method Not Allowed')
  }

  return {
    graphql: async (principal, request, address) => {
      const { sign } = await getSigner()
      const call: WandbCall = {
        context,
        principal,
        addressOf: (grant) => `${address}/wandb/storage?token=${sign(grant, principal.entity)}`,
      }
      // with it comes the GraphQL library, which a server that nobody asks this of need not read at its start
      const { executeQuery } = await import('./execute-query.js')
      return executeQuery(rootOf(call), request, () => requireScope(principal, 'write'))
    },
    stream: async (principal, { entity, project, run }, request) => {
      if (!isOwn(principal, { entity, project })) {
        throw new NotFoundError('run_not_found', `run "${project.slice(0, 100)}/${run.slice(0, 100)}" was not found`)
      }
      return storeStream(context, { entity, project, name: run }, request)
    },
    verify: async (token) => (await getSigner()).verify(token),
    put: ({ grant }, body) => put(grant, body),
    open: async ({ grant }) => {
      if (grant.kind === 'get_blob') return { bytes: await blobs.openRead(grant.sha256) }
      if (grant.kind !== 'get_checkpoint_manifest') {
        throw new InvalidRequestError('method_not_allowed', 'Method Not Allowed')
      }
      const manifest = await checkpointManifest(context, grant.checkpointId)
      return { bytes: new TextEncoder().encode(JSON.stringify(manifest)) }
    },
  }
}

/** Everything the client may ask. */
function rootOf(call: WandbCall) {
  const runs = runFields(call)
  const artifacts = artifactRootFields(call)
  const { entity } = call.principal
  const project = (args: Arguments): Fields => {
    const owner = ownEntity(call, args['entityName'])
    const name = ownProject(call, optionalText(args, 'name') ?? 'uncategorized')
    return {
      ...projectInfo(owner, name),
      ...projectRunFields(call, owner, name),
      ...projectArtifactFields(call, owner, name),
    }
  }
  const query: Fields = {
    viewer: {
      id: entity,
      entity,
      username: entity,
      name: entity,
      email: null,
      flags: '{}',
      admin: false,
      deletedAt: null,
      teams: { edges: [{ node: { id: entity, name: entity } }] },
      apiKeys: { edges: [] },
    },
    // no client is too new: what it asks is answered field by field
    serverInfo: { cliVersionInfo: { max_cli_version: '999.0.0' }, latestLocalVersionInfo: null, features: [] },
    entity: (args) => {
      const name = ownEntity(call, textOf(args, 'name'))
      return { id: name, name, isTeam: false, organization: null, xxhashDigestsEnabled: false }
    },
    organization: () => null,
    project,
    model: project,
    ...artifacts.query,
  }
  const mutation: Fields = { ...runs.mutation, ...artifacts.mutation }
  return { query: { ...query, __type: describeRoot({ Query: query, Mutation: mutation }) }, mutation }
}

/** Older clients ask which fields there are before they use them. */
function describeRoot(roots: Readonly<Record<string, Fields>>) {
  return (args: Arguments): Fields => {
    const name = String(args['name'])
    const names: readonly JsonValue[] = Object.hasOwn(roots, name) ? Object.keys(roots[name] ?? {}) : []
    return {
      name: args['name'] ?? null,
      fields: names.map((field) => ({ name: field, args: [] })),
      inputFields: [],
      enumValues: [],
    }
  }
}
