/**
 * Things that are had once, for a while, by whoever knows their secret. They lie in memory: a server that starts anew knows none of before.
 */
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import { hashSecret, newSecret } from '#service/storage/api-keys.js'

export interface OneTime<T> {
  /** @returns its secret of 256 bits in letters and digits, which stay whole at the end of an address, and when it ends, milliseconds since 1970 */
  put(thing: T): { readonly secret: string; readonly expiresAtMs: number }
  /** The thing, which is gone then; null for a secret that names none, or none any more. */
  take(secret: string): T | null
}

/** Most that wait at once; one more ends the oldest. */
const MOST = 1000

/** @param lifeMs how long a thing waits, by a clock that nobody sets */
export function createOneTime<T>(
  { clock, ids }: { readonly clock: Clock; readonly ids: IdSource },
  lifeMs: number,
): OneTime<T> {
  const waiting = new Map<string, { readonly thing: T; readonly endsAtMs: number }>()

  function dropOld(nowMs: number): void {
    for (const [hash, { endsAtMs }] of waiting) {
      if (endsAtMs > nowMs && waiting.size < MOST) return
      waiting.delete(hash)
    }
  }

  return {
    put: (thing) => {
      const nowMs = clock.monotonicMs()
      // all live equally long, so the oldest come first
      dropOld(nowMs)
      const secret = newSecret(ids, '')
      waiting.set(hashSecret(secret), { thing, endsAtMs: nowMs + lifeMs })
      return { secret, expiresAtMs: clock.nowMs() + lifeMs }
    },
    take: (secret) => {
      const hash = hashSecret(secret)
      const found = waiting.get(hash)
      waiting.delete(hash)
      return found === undefined || found.endsAtMs <= clock.monotonicMs() ? null : found.thing
    },
  }
}
