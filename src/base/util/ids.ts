/**
 * Ids, injected as an `IdSource`. UUID version 7: sorts by creation time, so an id is also a paging cursor.
 */
import { randomBytes } from 'node:crypto'
import { v7 } from 'uuid'

/** Makes ids and secrets. */
export interface IdSource {
  /** A UUIDv7 string, monotonic within this process. */
  uuid(): string
  /** `bytes` random bytes as base64url text. */
  secret(bytes: number): string
}

/** An id as it is stored: a UUID means the same in upper case; any other text stays as it is. */
export function canonicalId(text: string): string {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) ? text.toLowerCase() : text
}

/** Ids from the operating system's randomness. */
export const systemIds: IdSource = {
  uuid: () => v7(),
  secret: (bytes) => randomBytes(bytes).toString('base64url'),
}
