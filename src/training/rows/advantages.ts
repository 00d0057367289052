/**
 * Group-relative advantages and the batch-wide scaling that follows.
 *
 * Knows nothing about tokens or models: rewards and token counts in, coefficients out.
 * Sources: GRPO (arXiv:2402.03300) as ART computes it; the mean of the others of a group is RLOO's baseline (arXiv:2402.14740,
 * section 3.1), that of all trajectories REINFORCE++'s (arXiv:2501.03262). Formulas in
 * `src/docs/reference/how-training-works.md`. Deviation from ART: equality is tested with a tolerance of 1e-12, because the float
 * mean of equal rewards may differ from them in the last bit and the batch scaling would then train on that noise at full size.
 */
import { differ, EQUAL_WITHIN } from '#base/differ.js'
import { standardDeviation } from '#formats/rows/metrics.js'
import { type AdvantageEstimator, formulaAdvantages } from '#formats/rows/which-train.js'

/** Added to a group's standard deviation, and to a trajectory's token count, before dividing. */
export const ADVANTAGE_EPSILON = 1e-6

/** How the tokens of a batch share the loss; `constant` is finished by pack.ts, where rows are known. */
export type LossAggregation = 'trajectory' | 'token' | 'constant'

/** How rewards become advantages. */
export interface AdvantageOptions {
  /** Default `group`. */
  readonly advantageEstimator?: AdvantageEstimator
  /** Divide by the population standard deviation + 1e-6 (ART's default is true) of the group, or of all under `batch`. */
  readonly scaleRewards: boolean
  /** Reward of each group's greedy answer, for formulas that read it. */
  readonly greedy_P?: readonly number[]
}

/** A sequence before batch scaling. */
export interface UnscaledSequence {
  /** Advantage of its trajectory inside the group. */
  readonly advantage: number
  /** Weight of its trajectory, from `trajectoryWeight`. */
  readonly weight: number
  /** Tokens with loss mask 1. */
  readonly trainableTokenCount: number
  /** Advantages of its tokens where they differ, 0 where nothing trains; absent or null: all have the sequence's. */
  readonly tokenAdvantages?: Float64Array | null
}

/** What multiplies the loss of each of a sequence's tokens. */
export interface Coefficients {
  readonly advantage: number
  readonly weight: number
  readonly tokenAdvantages?: Float64Array
}

/**
 * Centres rewards inside one group.
 *
 * @param rewards_G finite rewards, dimensionless
 * @param scaleRewards divide by the population standard deviation + 1e-6 (ART's default is true)
 * @returns advantages_G; all 0 when the rewards differ by at most 1e-12; 0 for a reward within 1e-12 of the mean. A 0 means:
 *   this trajectory shaped the baseline but does not train
 * @example groupAdvantages([1, 0, 0.25, 0.75], false) // [0.5, -0.5, -0.25, 0.25]
 */
export function groupAdvantages(rewards_G: readonly number[], scaleRewards: boolean): number[] {
  if (!differ(rewards_G)) return rewards_G.map(() => 0)
  const mean = rewards_G.reduce((sum, reward) => sum + reward, 0) / rewards_G.length
  const divisor = scaleRewards ? standardDeviation(rewards_G) + ADVANTAGE_EPSILON : 1
  return rewards_G.map((reward) => {
    const centred = reward - mean
    return Math.abs(centred) <= EQUAL_WITHIN ? 0 : centred / divisor
  })
}

/**
 * Advantages of every trajectory of a job.
 *
 * @param rewards_P_G ragged: groups may differ in size
 * @returns of the same shape; 0 as in `groupAdvantages`. `leave_one_out` is the centred reward times G / (G - 1), and 0 in a group of
 *   one; under `batch` all rewards are one group, so that groups of one and groups of equal rewards train too
 */
export function advantagesOf(
  rewards_P_G: readonly (readonly number[])[],
  { advantageEstimator = 'group', scaleRewards, greedy_P }: AdvantageOptions,
): number[][] {
  if (typeof advantageEstimator === 'object') return formulaAdvantages(rewards_P_G, advantageEstimator, greedy_P)
  if (advantageEstimator === 'batch') {
    const all = groupAdvantages(rewards_P_G.flat(), scaleRewards)
    let end = 0
    return rewards_P_G.map(({ length }) => {
      end += length
      return all.slice(end - length, end)
    })
  }
  return rewards_P_G.map((rewards_G) => {
    const advantages_G = groupAdvantages(rewards_G, scaleRewards)
    const { length } = rewards_G
    return advantageEstimator === 'group'
      ? advantages_G
      : advantages_G.map((advantage) => (advantage * length) / (length - 1 || 1))
  })
}

/**
 * What is added to the reward of an answer that comes close to its limit: 0 up to `limit - buffer` tokens, then falling in
 * proportion, -1 from the limit on.
 *
 * Source: DAPO (arXiv:2503.14476), equation 13, soft overlong punishment.
 *
 * @param tokenCount of the answer
 */
export function softOverlengthPenalty(
  tokenCount: number,
  { limit, buffer }: { readonly limit: number; readonly buffer: number },
): number {
  return -Math.min(1, Math.max(0, (tokenCount - (limit - buffer)) / buffer))
}

/**
 * The weight of each token of a trajectory before batch scaling.
 *
 * @param trainableTokenCount trainable tokens of the whole trajectory, all its histories together, before anything is dropped
 * @returns 1 / (count + 1e-6) for `trajectory`, so that every trajectory weighs the same; 1 otherwise
 */
export function trajectoryWeight(trainableTokenCount: number, aggregation: LossAggregation): number {
  return aggregation === 'trajectory' ? 1 / (trainableTokenCount + ADVANTAGE_EPSILON) : 1
}

/**
 * Scales weights and advantages over all trainable tokens of a train call.
 *
 * Weights get token mean 1; advantages are balanced, then divided by the token mean of |advantage| * weight, so the mean
 * absolute advantage of every call is 1 whatever the reward scale was.
 *
 * @param sequences all sequences of the call that are trained
 * @param advantageBalance from -1 to 1; b > 0 multiplies negative advantages by 1 - b, b < 0 positive ones by 1 + b
 * @param scaleBatch divide advantages by their mean size; false leaves them as their rewards say
 * @returns coefficients in the order of the input; advantages stay 0 when balance leaves nothing
 */
export function normalizeBatch(
  sequences: readonly UnscaledSequence[],
  advantageBalance: number,
  scaleBatch = true,
): Coefficients[] {
  const tokenCount = sumOf(sequences, (sequence) => sequence.trainableTokenCount)
  if (tokenCount === 0) return sequences.map(() => ({ advantage: 0, weight: 0 }))
  const meanWeight = sumOf(sequences, (sequence) => sequence.weight * sequence.trainableTokenCount) / tokenCount
  const balanced = sequences.map((sequence) => ({
    advantage: balanceAdvantage(sequence.advantage, advantageBalance),
    weight: sequence.weight / meanWeight,
    trainableTokenCount: sequence.trainableTokenCount,
    tokenAdvantages: sequence.tokenAdvantages?.map((each) => balanceAdvantage(each, advantageBalance)) ?? null,
  }))
  const meanAdvantage = sumOf(balanced, (sequence) => absoluteSum(sequence) * sequence.weight) / tokenCount
  const scale = meanAdvantage === 0 ? 0 : scaleBatch ? 1 / meanAdvantage : 1
  return balanced.map(({ advantage, weight, tokenAdvantages }) => ({
    advantage: advantage * scale,
    weight,
    ...(tokenAdvantages === null ? {} : { tokenAdvantages: tokenAdvantages.map((each) => each * scale) }),
  }))
}

/** Of the advantages of a sequence's tokens. */
function absoluteSum({
  advantage,
  trainableTokenCount,
  tokenAdvantages = null,
}: Omit<UnscaledSequence, 'weight'>): number {
  if (tokenAdvantages === null) return Math.abs(advantage) * trainableTokenCount
  return tokenAdvantages.reduce((sum, each) => sum + Math.abs(each), 0)
}

function balanceAdvantage(advantage: number, balance: number): number {
  if (advantage < 0) return balance > 0 ? advantage * (1 - balance) : advantage
  return balance < 0 ? advantage * (1 + balance) : advantage
}

function sumOf<Item>(items: readonly Item[], value: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + value(item), 0)
}
