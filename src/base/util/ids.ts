/**
 * Ids, injected as an `IdSource`. UUID version 7: sorts by creation time, so an id is also a paging cursor.
 */
import { randomBytes } from 'node:crypto'
import { v7 } from 'uuid'
import { type Clock, systemClock } from './clock.js'

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

/** When a UUIDv7 was made, milliseconds since 1970; null for any other text. */
export function timeOfId(id: string): number | null {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id)) return null
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
}

/** A source whose ids go on behind those of an earlier process. */
export interface ContinuedIdSource extends IdSource {
  /** From now on every id is greater than `id`, whatever the clock says; text that is no UUIDv7 changes nothing. */
  continueAfter(id: string): void
}

/**
 * Ids from the operating system's randomness. Each is greater than the one before, also when the clock is set back: what is
 * made later sorts later.
 */
export function createIdSource(clock: Pick<Clock, 'nowMs'>): ContinuedIdSource {
  let lastMs = 0
  let count = 0
  return {
    uuid: () => {
      const nowMs = clock.nowMs()
      if (nowMs > lastMs) {
        lastMs = nowMs
        // half of the range is left to count in
        count = randomBytes(4).readUInt32BE() >>> 1
      } else {
        count += 1
        if (count > 0xffff_ffff) {
          lastMs += 1
          count = 0
        }
      }
      return v7({ msecs: lastMs, seq: count })
    },
    secret: (bytes) => randomBytes(bytes).toString('base64url'),
    continueAfter: (id) => {
      const madeAtMs = timeOfId(id)
      if (madeAtMs === null || madeAtMs < lastMs) return
      lastMs = madeAtMs + 1
      count = 0
    },
  }
}

/** Ids of this process. */
export const systemIds: IdSource = createIdSource(systemClock)
