/**
 * The policy loss of `src/docs/reference/how-training-works.md` in float64 with its analytic gradient, for one packed row.
 *
 * Written from the formulas, token by token, with no regard for speed: the train graph is tested against it. It works on the N
 * trained tokens of the row only. Where ART's behaviour and ours differ, it follows ours: a masked token has zero loss and
 * gradient, and truncation needs precalculated log-probabilities; truncation by `ratio` shows ART's form without them.
 */
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'

/** Arrays over the N trained tokens of a row. */
export interface PolicyLossInput {
  /** Log-probabilities under the policy being trained. */
  readonly logprobs: ArrayLike<number>
  /** The sampler's; NaN means: as if sampled from the current policy. */
  readonly samplerLogprobs: ArrayLike<number>
  /** The trainer's own before the first step of the call; they take the sampler's place in the ratio. */
  readonly precalculatedLogprobs?: ArrayLike<number>
  /** The base model's, for the KL penalty. */
  readonly referenceLogprobs?: ArrayLike<number>
  /** Of the distributions that tokens were drawn from, for the entropy bonus. */
  readonly entropies?: ArrayLike<number>
  readonly advantages: ArrayLike<number>
  readonly weights: ArrayLike<number>
  /** Tokens of one sequence have equal values. */
  readonly segmentIds: ArrayLike<number>
}

/** Loss of the row and its gradient with respect to each log-probability. */
export interface PolicyLossResult {
  readonly loss: number
  readonly gradient: number[]
  /** With respect to each entropy. */
  readonly entropyGradient: number[]
  /** Ratio of each token before any modifier. */
  readonly ratios: number[]
  /** Advantages after tau and KL penalty. */
  readonly shapedAdvantages: number[]
}

/** Computes loss and gradient. */
export function policyLossReference(input: PolicyLossInput, config: PolicyLossOptions): PolicyLossResult {
  const count = input.logprobs.length
  const tokens = Array.from({ length: count }, (_, t) => t)
  const at = (array: ArrayLike<number>, t: number): number => array[t] ?? Number.NaN
  const logprob = (t: number): number => at(input.logprobs, t)
  const old = tokens.map((t) => {
    const value = at(input.precalculatedLogprobs ?? input.samplerLogprobs, t)
    return Number.isNaN(value) ? logprob(t) : value
  })
  const d = tokens.map((t) => logprob(t) - at(old, t))
  const segment = (t: number): number[] => tokens.filter((u) => at(input.segmentIds, u) === at(input.segmentIds, t))
  const segmentMean = tokens.map((t) => mean(segment(t).map((u) => at(d, u))))

  /** Ratio of token t and its derivative with respect to the log-probability of token u. */
  const ratioOf = (t: number): { value: number; derivative: (u: number) => number } => {
    const token = Math.exp(at(d, t))
    const sequence = Math.exp(at(segmentMean, t))
    const own = (u: number): number => (u === t ? 1 : 0)
    const members = segment(t)
    const share = (u: number): number => (members.includes(u) ? 1 / members.length : 0)
    switch (config.ratioLevel) {
      case 'token':
        return { value: token, derivative: (u) => token * own(u) }
      case 'sequence':
        return { value: sequence, derivative: (u) => sequence * share(u) }
      case 'average':
        return { value: (token + sequence) / 2, derivative: (u) => (token * own(u) + sequence * share(u)) / 2 }
      case 'geometric_average': {
        const value = Math.sqrt(token * sequence)
        return { value, derivative: (u) => (value * (own(u) + share(u))) / 2 }
      }
    }
  }

  const low = 1 - config.epsilon
  const high = 1 + config.epsilonHigh
  const cap = config.maxRatio ?? Number.POSITIVE_INFINITY
  const shapedAdvantages = shapeAdvantages(input, config, old, d)
  const ratios: number[] = []
  const gradient = tokens.map(() => 0)
  let loss = 0
  for (const t of tokens) {
    const raw = ratioOf(t)
    ratios.push(raw.value)
    const ratio = Math.min(raw.value, cap)
    const isInside = ratio > low && ratio < high
    const isMasked = config.isMaskedOutsideClip && !isInside
    const clipped = Math.min(Math.max(ratio, low), high)
    const advantage = at(shapedAdvantages, t)
    const factor =
      (truncation(input, config, t, isMasked ? 0 : ratio) * at(input.weights, t) * (isMasked ? 0 : 1)) / count
    if (config.loss === 'cispo') {
      loss += factor * -clipped * advantage * logprob(t)
      gradient[t] = at(gradient, t) + factor * -clipped * advantage
      continue
    }
    if (config.loss === 'dro') {
      // -(A log p - beta/2 d^2): the gradient is that of A - beta d
      loss += factor * -(advantage * logprob(t) - (config.droBeta / 2) * at(d, t) ** 2)
      gradient[t] = at(gradient, t) + factor * -(advantage - config.droBeta * at(d, t))
      continue
    }
    if (config.loss === 'importance_sampling') {
      loss += factor * -ratio * advantage
      if (raw.value > cap) continue
      for (const u of tokens) gradient[u] = at(gradient, u) + factor * -advantage * raw.derivative(u)
      continue
    }
    loss += factor * -Math.min(ratio * advantage, clipped * advantage)
    const flows = raw.value <= cap && (isInside || ratio * advantage < clipped * advantage)
    if (!flows) continue
    for (const u of tokens) gradient[u] = at(gradient, u) + factor * -advantage * raw.derivative(u)
  }
  const entropyGradient = tokens.map((t) => (-config.entropyCoefficient * at(input.weights, t)) / count)
  for (const t of tokens) {
    const share = at(input.weights, t) / count
    if (config.entropyCoefficient > 0) loss += at(entropyGradient, t) * at(input.entropies ?? [], t)
    if (config.klBeta === 0) continue
    const x = at(input.referenceLogprobs ?? [], t) - logprob(t)
    loss += config.klBeta * share * (Math.exp(x) - x - 1)
    gradient[t] = at(gradient, t) + config.klBeta * share * (1 - Math.exp(x))
  }
  return { loss, gradient, entropyGradient, ratios, shapedAdvantages }
}

/** `alt_k2_tau` and the KL penalty; everything here is detached from the gradient. */
function shapeAdvantages(
  input: PolicyLossInput,
  config: PolicyLossOptions,
  old: readonly number[],
  d: readonly number[],
): number[] {
  const { kl } = config
  const source = kl?.source === 'sample' ? old : Array.from(input.logprobs)
  const reference = input.referenceLogprobs
  const k = source.map((value, t) =>
    kl !== null && reference !== undefined ? value - (reference[t] ?? Number.NaN) : 0,
  )
  const centre = mean(k)
  return d.map((difference, t) => {
    const tau = (config.tau ?? 0) * difference
    return (input.advantages[t] ?? Number.NaN) - tau + (kl?.coefficient ?? 0) * (centre - (k[t] ?? 0))
  })
}

function truncation(input: PolicyLossInput, config: PolicyLossOptions, t: number, modifiedRatio: number): number {
  if (config.truncation === null) return 1
  const { limit, source } = config.truncation
  if (source === 'ratio') return Math.min(modifiedRatio, limit)
  const trainer = input.precalculatedLogprobs?.[t]
  const sampler = input.samplerLogprobs[t] ?? Number.NaN
  if (trainer === undefined) throw new Error('truncation needs precalculated log-probabilities')
  return Number.isNaN(sampler) ? 1 : Math.min(Math.exp(trainer - sampler), limit)
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
