/**
 * Whose request is let in next: keys take turns, so that one key's many do not stand before another key's one.
 */
import { type ActiveRequest, isBefore } from './active-request.js'

/**
 * The request that is let in next. A key of which nothing is inside needs no free row for it: another key gives one.
 *
 * @param waiting at least one
 * @param requests all of the engine
 */
export function nextOf(
  waiting: readonly ActiveRequest[],
  requests: Iterable<ActiveRequest>,
): { readonly next: ActiveRequest; readonly isFirstOfKey: boolean } {
  const open = openByKey(requests)
  const next = waiting.reduce((first, other) => (isNext(other, first, open) ? other : first))
  return { next, isFirstOfKey: !open.has(next.keyId) }
}

/** Choices that are not at their end, of requests that were let in, by key. */
function openByKey(requests: Iterable<ActiveRequest>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { keyId, admittedMs, open } of requests) {
    if (admittedMs === Number.POSITIVE_INFINITY) continue
    counts.set(keyId, (counts.get(keyId) ?? 0) + open.size)
  }
  return counts
}

/** Whether `a` is let in before `b`: by priority, then the key with fewer choices inside, then as they came. */
function isNext(a: ActiveRequest, b: ActiveRequest, open: ReadonlyMap<string, number>): boolean {
  const [ofA, ofB] = [open.get(a.keyId) ?? 0, open.get(b.keyId) ?? 0]
  return a.priority === b.priority && ofA !== ofB ? ofA < ofB : isBefore(a, b)
}
