/** What a generator of random requests asks of its random numbers. */
import type { Rng } from '#base/util/rng.js'

export interface Chooser {
  /** An integer from 0 up to below `count`. */
  below(count: number): number
  pick<T>(list: readonly T[]): T
  /** Whether something of this probability happens. */
  chance(share: number): boolean
}

export function createChooser(rng: Rng): Chooser {
  const below = (count: number): number => rng.integer(Math.max(1, count))
  return {
    below,
    pick: <T>(list: readonly T[]): T => list[below(list.length)] as T,
    chance: (share) => rng.uniform() < share,
  }
}
