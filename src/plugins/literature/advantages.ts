/**
 * Advantages of a group's rewards beside the core's own. Which groups train follows from them (`formats/rows/which-train.ts`):
 * here groups whose rewards differ.
 */
import type { AdvantageDefinition } from '#contract/jobs/losses.js'

/** Added to a deviation before dividing, as the core's own. */
const EPSILON = 1e-6

/**
 * The group's mean, and the deviation of all rewards of the job: a group of nearly equal rewards is not blown up by its own.
 *
 * Source: Lite PPO, arXiv:2508.08221, section 4; TRL's `scale_rewards="batch"` (which divides by G − 1 in place of G).
 */
const batchDeviation: AdvantageDefinition = {
  name: 'group_batch_std',
  summary: "the group's mean, over the deviation of all rewards",
  source: 'arXiv:2508.08221',
  advantage: ({ reward }, { sub, div, add, groupMean, batchDeviation: deviation }) =>
    div(sub(reward, groupMean(reward)), add(deviation(reward), EPSILON)),
}

/**
 * REINFORCE++-baseline: the group's mean first, then the deviation of what is left, over all trajectories.
 *
 * Source: arXiv:2501.03262, equations 12 and 13. What is left has the mean 0 already.
 */
const reinforceBaseline: AdvantageDefinition = {
  name: 'reinforce_plus_plus_baseline',
  summary: "the group's mean, over the deviation of what is left of all",
  source: 'arXiv:2501.03262',
  advantage({ reward }, { sub, div, add, groupMean, batchDeviation: deviation }) {
    const centred = sub(reward, groupMean(reward))
    return div(centred, add(deviation(centred), EPSILON))
  },
}

/**
 * ReMax: how much more an answer earns than the greedy one to the same prompt, which stands in its group.
 *
 * Source: arXiv:2310.10505, equation 6 and algorithm 1.
 */
const remax: AdvantageDefinition = {
  name: 'remax',
  summary: 'the reward less that of the greedy answer of its group',
  source: 'arXiv:2310.10505',
  advantage: ({ reward, greedy }, { sub }) => sub(reward, greedy),
}

export const ADVANTAGES: readonly AdvantageDefinition[] = [batchDeviation, reinforceBaseline, remax]
