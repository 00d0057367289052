/**
 * What a reward can be at least and at most: without it nobody can say whether an answer earned all there is.
 */

/** The least and the most that an answer can earn. */
export type RewardRange = readonly [least: number, most: number]

/**
 * Which part of a range a reward is, from 0 to 1.
 *
 * @example shareOfRange(-1, [-4, 0]) // 0.75
 */
export function shareOfRange(reward: number, [least, most]: RewardRange): number {
  return most === least ? 1 : Math.min(1, Math.max(0, (reward - least) / (most - least)))
}

/**
 * The range of a group's rewards as the group carries it.
 *
 * @param carried its fields; the least is 0, or the least reward of the group, where only the most is said
 * @returns null where the most is not said
 */
export function rangeOfGroup(
  carried: { readonly min_reward?: unknown; readonly max_reward?: unknown },
  rewards: readonly number[],
): RewardRange | null {
  const { min_reward: least, max_reward: most } = carried
  if (typeof most !== 'number') return null
  return [typeof least === 'number' ? least : rewards.reduce((a, b) => Math.min(a, b), Math.min(0, most)), most]
}
