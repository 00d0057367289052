/**
 * Notes about rows that set their own `weight`: how many do, and in which range.
 */

/** Sees the weight of each row. */
export interface Weights {
  add(weight: number): void
  /** One sentence where a row has another weight than 1; none for none. */
  sentences(): string[]
}

/** None seen yet. */
export function createWeights(): Weights {
  let count = 0
  let total = 0
  let [least, most] = [Number.POSITIVE_INFINITY, 0]
  return {
    add(weight) {
      total += 1
      if (weight !== 1) count += 1
      least = Math.min(least, weight)
      most = Math.max(most, weight)
    },
    sentences: () =>
      count === 0
        ? []
        : [
            `${count} of ${total} rows ${count === 1 ? 'has' : 'have'} a weight of ${count === 1 ? 'its' : 'their'} own (all from ${least} to ${most}), which multiplies the loss of their tokens`,
          ],
  }
}
