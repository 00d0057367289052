/**
 * What is said where rewards are equal inside groups, in the same words on a job's record, in the library and on the command line.
 */

/** What to do about it. */
const ADVICE =
  'an answer is compared with the others of its group: ask more often, raise the temperature, take prompts that are solved sometimes, or a finer reward'

/**
 * Says how many groups teach nothing, and what to do.
 *
 * @param flat groups whose rewards do not differ
 * @example equalRewards({ groups: 4, flat: 2, reward: 0.5 })
 * // reward variance zero in 50% of groups (2 of 4, mean reward 0.5): they teach nothing; …
 */
export function equalRewards(counts: {
  readonly groups: number
  readonly flat: number
  /** Mean of all trajectories. */
  readonly reward: number
}): string {
  const { groups, flat, reward } = counts
  const percent = Math.round((100 * flat) / groups)
  return `reward variance zero in ${percent}% of groups (${flat} of ${groups}, mean reward ${Number(reward.toPrecision(3))}): they teach nothing; ${ADVICE}`
}
