/**
 * Which groups of an RL job train: the one place that says it, for the trainer, plans, findings, the command line, the library
 * and the page.
 *
 * Knows rewards and the option that changes what they are compared with; not tokens. A group that trains has a trajectory whose
 * advantage (`training/rows/advantages.ts`, formulas in `src/docs/reference/how-training-works.md`) is not 0; one of another
 * advantage than 0 may still have no token to train on. A KL penalty trains nothing that has no advantage, as in ART.
 */
import { differ, EQUAL_WITHIN } from '#base/differ.js'
import { evaluateFormula } from '#base/formula/evaluate.js'
import { type Formula, inputsOf } from '#base/formula/formula.js'

/**
 * What a reward is compared with: the mean of its group, of the others of its group, of all trajectories of the job; or what
 * a formula says.
 */
export type AdvantageEstimator = 'group' | 'leave_one_out' | 'batch' | Formula

/** What advantages are made of: a trajectory's reward, and that of the greedy answer of its group. */
export const ADVANTAGE_INPUTS = ['reward', 'greedy'] as const

/** Whether an estimator compares with the greedy answer of a group. */
export function readsGreedy(estimator: AdvantageEstimator | undefined): boolean {
  return typeof estimator === 'object' && inputsOf(estimator).includes('greedy')
}

/** Estimators that are formulas with a name, in this process. */
const named = new Map<string, Formula>()

export function addEstimator(name: string, formula: Formula): void {
  named.set(name, formula)
}

/**
 * The estimator of a job's options as they go over the wire; the default where they do not say, or not yet anything that is
 * valid. A name that only the server knows compares inside groups, as all of the package's own do.
 */
export function estimatorOf(options: { readonly [name: string]: unknown }): AdvantageEstimator {
  const { advantage_estimator: given, advantage_formula: formula } = options
  if (typeof formula === 'object' && formula !== null) return formula as Formula
  return given === 'batch' || given === 'leave_one_out' ? given : (named.get(String(given)) ?? 'group')
}

/**
 * Advantages that a formula has.
 *
 * @param greedy_P reward of each group's greedy answer, where the formula reads it
 * @returns of the same shape; 0 within 1e-12 of it
 */
export function formulaAdvantages(
  rewards_P_G: readonly (readonly number[])[],
  formula: Formula,
  greedy_P: readonly number[] = [],
): number[][] {
  const reward = rewards_P_G.flat()
  const greedy = rewards_P_G.flatMap((rewards_G, group) => rewards_G.map(() => greedy_P[group] ?? 0))
  const parts = rewards_P_G.flatMap((rewards_G, group) => rewards_G.map(() => group))
  const all = Array.from(
    evaluateFormula(formula, { inputs: { reward, greedy }, length: reward.length, parts }),
    (each) => (Math.abs(each) > EQUAL_WITHIN ? each : 0),
  )
  let end = 0
  return rewards_P_G.map(({ length }) => {
    end += length
    return all.slice(end - length, end)
  })
}

/** Why nothing of a group trains. `reward_is_mean`: under `batch`, every reward of it is the mean of all. */
export type GroupLeftOut = 'empty' | 'single_trajectory' | 'equal_rewards' | 'reward_is_mean'

/**
 * Why each group does not train.
 *
 * @param rewards_P_G finite rewards with which advantages are taken, so after `soft_overlength_limit`; ragged, groups may be
 *   empty
 * @param estimator `advantage_estimator` of the job; default `group`, whatever is neither `batch` nor a formula compares inside
 *   groups
 * @returns for each group null where it trains
 * @example whichTrain([[1], [0]], 'batch') // [null, null]: REINFORCE++ compares answers to different prompts
 */
export function whichTrain(
  rewards_P_G: readonly (readonly number[])[],
  estimator: AdvantageEstimator = 'group',
): readonly (GroupLeftOut | null)[] {
  // its greedy answer is one of a group: where one earns more or less, rewards differ
  if (typeof estimator === 'object' && readsGreedy(estimator)) return rewards_P_G.map(leftOutOfItself)
  if (typeof estimator === 'object') {
    const advantages_P_G = formulaAdvantages(rewards_P_G, estimator)
    return rewards_P_G.map((rewards_G, group) =>
      advantages_P_G[group]?.some((advantage) => advantage !== 0) === true
        ? null
        : (leftOutOfItself(rewards_G) ?? 'reward_is_mean'),
    )
  }
  if (estimator !== 'batch') return rewards_P_G.map(leftOutOfItself)
  const all = rewards_P_G.flat()
  const doDiffer = differ(all)
  const mean = all.reduce((sum, reward) => sum + reward, 0) / all.length
  return rewards_P_G.map((rewards_G) => {
    if (rewards_G.length === 0) return 'empty'
    if (!doDiffer) return 'equal_rewards'
    return rewards_G.some((reward) => Math.abs(reward - mean) > EQUAL_WITHIN) ? null : 'reward_is_mean'
  })
}

function leftOutOfItself(rewards_G: readonly number[]): GroupLeftOut | null {
  if (rewards_G.length === 0) return 'empty'
  if (rewards_G.length === 1) return 'single_trajectory'
  return differ(rewards_G) ? null : 'equal_rewards'
}

/** How many of them train. */
export function countTraining(rewards_P_G: readonly (readonly number[])[], estimator?: AdvantageEstimator): number {
  return whichTrain(rewards_P_G, estimator).filter((reason) => reason === null).length
}
