/**
 * The JSON bodies that the service reads: those of the endpoint table, and the artifact manifest, which is stored as a
 * file before it is read. Also how much may arrive, and how fast it must.
 *
 * The thread that reads large bodies (`thread-main.ts`) is sent the name of a body and looks its schema up here.
 */
import type { z } from 'zod'
import type { Endpoint, JsonBody } from '#contract/endpoints/endpoint.js'
import {
  type BodyKey,
  ENDPOINTS,
  type BodyOf as EndpointBodyOf,
  type EndpointKey,
  type GroupsKey,
} from '#contract/endpoints/table.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import { artifactManifestSchema } from '#contract/wire/compatible/wandb.js'

/** What may be sent and how fast. Settings of the server; the defaults are `DEFAULT_BODY_LIMITS`. */
export interface BodyLimits {
  /** Models, deletes, SFT jobs: small objects. Bytes. */
  readonly smallBytes: number
  /** A chat request, bytes. */
  readonly chatBytes: number
  /** A body of trajectory groups, bytes: they are read one by one, so this costs disk, not memory. */
  readonly trajectoriesBytes: number
  /** One trajectory group, bytes. */
  readonly groupBytes: number
  /** An uploaded file, bytes. */
  readonly uploadBytes: number
  /** All bodies that are not read to their end yet, together, bytes on disk; beyond it 503. */
  readonly unfinishedBytes: number
  /** A body that sends nothing for this long is given up, milliseconds. */
  readonly idleMs: number
  /** A body that nobody's key comes with is given up after so long, milliseconds. */
  readonly openMs: number
  /** A body that is slower than this on average, after `idleMs`, is given up. */
  readonly minBytesPerSecond: number
}

export const DEFAULT_BODY_LIMITS: BodyLimits = {
  smallBytes: SERVICE_DEFAULTS.maxRequestBodyBytes,
  chatBytes: SERVICE_DEFAULTS.maxChatBodyBytes,
  trajectoriesBytes: SERVICE_DEFAULTS.maxTrajectoriesBytes,
  groupBytes: SERVICE_DEFAULTS.maxGroupBytes,
  uploadBytes: SERVICE_DEFAULTS.maxUploadBytes,
  unfinishedBytes: SERVICE_DEFAULTS.maxUnfinishedBytes,
  idleMs: 30_000,
  openMs: 1000,
  minBytesPerSecond: 8192,
}

const STORED = {
  // an object a file, each with an entry of the map; clients that train send a handful of files
  'artifact manifest': {
    schema: artifactManifestSchema,
    size: 'chatBytes',
    reader: { maxContainers: 25_000, maxValues: 200_000, maxKeys: 20_000 },
  },
} as const satisfies Readonly<Record<string, JsonBody>>

/** The key of an endpoint, or the name of a stored body. */
export type BodyName = BodyKey | keyof typeof STORED
/** Bodies whose `trajectory_groups` are streamed. */
export type GroupsBodyName = GroupsKey
export type BodyOf<N extends BodyName> = N extends BodyKey ? EndpointBodyOf<N> : z.output<typeof artifactManifestSchema>

/** The kind of a body. */
export function bodyOf<N extends BodyName>(name: N): JsonBody<z.ZodType<BodyOf<N>>>
export function bodyOf(name: BodyName): JsonBody {
  return name in STORED ? STORED[name as keyof typeof STORED] : ENDPOINTS[name as BodyKey].body
}

export const BODY_NAMES: readonly BodyName[] = [
  ...(Object.keys(ENDPOINTS) as EndpointKey[]).filter(hasJsonBody),
  ...(Object.keys(STORED) as (keyof typeof STORED)[]),
]

function hasJsonBody(key: EndpointKey): key is BodyKey {
  const row: Endpoint = ENDPOINTS[key]
  return typeof row.body === 'object'
}
