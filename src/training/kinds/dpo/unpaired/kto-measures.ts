/**
 * The reference point of a KTO step, its loss in float64, and the numbers it reports under TRL's names.
 */
import type { PreferenceLossOptions } from '#numerics/nn/preference-loss.js'

/** Of the answers of a batch, in order. */
export interface LabelledLogps {
  readonly signs: readonly number[]
  readonly policy: Float64Array
  readonly reference: Float64Array
}

/** 1 for an answer that is wanted, -1 for the others. */
export function signOf({ isDesirable }: { readonly isDesirable: boolean }): number {
  return isDesirable ? 1 : -1
}

/**
 * How far the policy has moved from the reference on answers that belong to other prompts: the mean difference of their
 * log-probabilities, at least 0.
 *
 * @returns nats per answer; 0 where there is no such answer
 */
export function referencePoint(policy: Float64Array, reference: Float64Array): number {
  const sum = policy.reduce((total, logp, i) => total + logp - (reference[i] as number), 0)
  return Math.max(0, sum / Math.max(1, policy.length))
}

/** Weight of an answer in the loss. */
export function weightOf(
  sign: number,
  { desirableWeight, undesirableWeight }: Pick<PreferenceLossOptions, 'desirableWeight' | 'undesirableWeight'>,
): number {
  return sign > 0 ? desirableWeight : undesirableWeight
}

/** Sums over the answers of some batches, from which means are taken: batches may hold no answer of one label. */
export function ktoSums({ signs, policy, reference }: LabelledLogps, kl: number, options: PreferenceLossOptions) {
  const sums = { loss: 0, count: 0, klCount: kl * signs.length, good: side(), bad: side() }
  signs.forEach((sign, i) => {
    const ratio = (policy[i] as number) - (reference[i] as number)
    const z = options.beta * sign * (ratio - kl)
    sums.loss += weightOf(sign, options) / (1 + Math.exp(z))
    sums.count += 1
    const own = sign > 0 ? sums.good : sums.bad
    own.count += 1
    own.reward += options.beta * ratio
    own.logp += policy[i] as number
  })
  return sums
}
export type KtoSums = ReturnType<typeof ktoSums>

/** Adds the second to the first. */
export function addKtoSums(total: KtoSums, next: KtoSums): KtoSums {
  const joined = (a: KtoSums['good'], b: KtoSums['good']) => ({
    count: a.count + b.count,
    reward: a.reward + b.reward,
    logp: a.logp + b.logp,
  })
  return {
    loss: total.loss + next.loss,
    count: total.count + next.count,
    klCount: total.klCount + next.klCount,
    good: joined(total.good, next.good),
    bad: joined(total.bad, next.bad),
  }
}

/** Means; those of a label without answers are left out. */
export function ktoMeasures({ loss, count, klCount, good, bad }: KtoSums): {
  readonly loss: number
  readonly metrics: Readonly<Record<string, number>>
} {
  const sides = (name: 'chosen' | 'rejected', { count, reward, logp }: KtoSums['good']) =>
    count === 0 ? {} : { [`rewards/${name}`]: reward / count, [`logps/${name}`]: logp / count }
  const margin =
    good.count > 0 && bad.count > 0 ? { 'rewards/margins': good.reward / good.count - bad.reward / bad.count } : {}
  return {
    loss: loss / count,
    metrics: { ...sides('chosen', good), ...sides('rejected', bad), ...margin, kl: klCount / count },
  }
}

function side() {
  return { count: 0, reward: 0, logp: 0 }
}
