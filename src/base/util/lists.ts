/**
 * What `push(...list)`, `Math.max(...list)` and `Math.min(...list)` say, for lists of any length: arguments lie on the stack, which
 * holds some 120,000 of them, and a long row has more tokens. `test/architecture/spreads.test.ts` allows no other spelling.
 */

/** Puts all of `more` behind what `list` has. */
export function append<T>(list: T[], more: Iterable<T>): void {
  for (const item of more) list.push(item)
}

/** The greatest of them; NaN if one is NaN. @param floor what it is at least, and that of none; default -Infinity */
export function maxOf(values: Iterable<number>, floor = Number.NEGATIVE_INFINITY): number {
  let result = floor
  for (const value of values) result = Math.max(result, value)
  return result
}

/** The least of them; NaN if one is NaN. @param ceiling what it is at most, and that of none; default Infinity */
export function minOf(values: Iterable<number>, ceiling = Number.POSITIVE_INFINITY): number {
  let result = ceiling
  for (const value of values) result = Math.min(result, value)
  return result
}
