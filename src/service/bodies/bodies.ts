/**
 * The JSON bodies that the service reads: those of the endpoint table, and what is stored as a file before it is read. Also how
 * much may arrive, and how fast it must.
 *
 * The thread that reads large bodies (`body-thread.ts`) is sent the name of a body and looks its schema up in a list of its own.
 */
import type { z } from 'zod'
import type { JsonBody } from '#contract/endpoints/endpoint.js'
import type { BodyKey, BodyOf as EndpointBodyOf, EndpointTable, GroupsKey } from '#contract/endpoints/table.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'

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

/** JSON that is a file here before it is read: it has no endpoint, and a name for the thread that reads it. */
export interface StoredBody<S extends z.ZodType = z.ZodType> extends JsonBody<S> {
  readonly name: string
}

/**
 * A body that is no JSON, of which something is read before it is stored: on the event loop while it is small, in the thread
 * that reads large bodies beyond that.
 */
export interface BinaryBody<T = unknown> {
  readonly name: string
  /** Loads what reads one. What it answers goes between threads as it is; it throws for nothing that a client sends. */
  load(): Promise<(body: Uint8Array) => T>
}

/** The key of an endpoint of the core. */
export type BodyName = BodyKey
/** Bodies whose `trajectory_groups` are streamed. */
export type GroupsBodyName = GroupsKey
export type BodyOf<N extends BodyName> = EndpointBodyOf<N>

/** Finds the kind of a body by the key of its endpoint, or by its name where it was stored. */
export type BodyFinder = (name: string) => JsonBody

/** What a thread knows that reads bodies. */
export interface KnownBodies {
  readonly bodyOf: BodyFinder
  readonly binary: readonly BinaryBody[]
}

/** Makes it from a table, and from what plugins store. */
export function createBodyFinder(
  { endpoints }: Pick<EndpointTable, 'endpoints'>,
  stored: readonly StoredBody[] = [],
): BodyFinder {
  const kinds = new Map<string, JsonBody>(stored.map((body) => [body.name, body]))
  for (const [key, { body }] of Object.entries(endpoints)) if (typeof body === 'object') kinds.set(key, body)
  return (name) => {
    const kind = kinds.get(name)
    if (kind === undefined) throw new Error(`no body is called "${name}"`)
    return kind
  }
}
