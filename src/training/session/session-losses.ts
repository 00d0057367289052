/**
 * The losses of a training session: how each is put to the graph (`numerics/nn/summed-loss.ts`), and its value in float64 from the
 * log-probabilities that came back, which is what a client is told.
 */
import type { CheckedLossRequest, LossSequence, SummedLoss } from '#formats/training-loop/loss-inputs.js'
import { MAX_LOG_RATIO } from '#numerics/nn/policy-loss.js'
import type { SummedLossForm } from '#numerics/nn/summed-loss.js'

type Config = CheckedLossRequest['config']

/** What the graph is given besides the rows' own numbers. */
export interface GraphSettings {
  readonly form: SummedLossForm
  readonly low: number
  readonly high: number
  readonly halfBeta: number
}

/** No bound that float32 could reach. */
const UNBOUNDED = 3e38

/** Null for a loss over whole sequences, which is linear in its tokens once their log-probabilities are known (`sequenceWeights`). */
export function graphSettings(loss: SummedLoss, config: Config): GraphSettings | null {
  switch (loss) {
    case 'cross_entropy':
      return { form: 'weighted', low: 1, high: 1, halfBeta: 0 }
    case 'importance_sampling':
      return { form: 'clipped', low: 0, high: UNBOUNDED, halfBeta: 0 }
    case 'ppo':
      return { form: 'clipped', ...bounds(config), halfBeta: 0 }
    case 'cispo':
      return { form: 'weighted', ...bounds(config), halfBeta: 0 }
    case 'dro':
      return { form: 'weighted', low: 1, high: 1, halfBeta: (config['beta'] ?? 0) / 2 }
    case 'gspo':
      return null
  }
}

/** The loss of one row, summed in float64. @param logprobs under the targets */
export function lossOfRow(loss: SummedLoss, config: Config, row: LossSequence, logprobs: Float32Array): number {
  if (loss === 'gspo') return sequenceLoss(config, row, logprobs).loss
  const { low, high } = bounds(config)
  let sum = 0
  logprobs.forEach((logp, i) => {
    const advantage = row.advantages[i] as number
    const distance = logp - (row.logprobs[i] as number)
    if (loss === 'cross_entropy') sum -= advantage * logp
    else if (loss === 'dro') sum -= advantage * logp - ((config['beta'] ?? 0) / 2) * distance * distance
    else {
      const ratio = ratioOf(distance)
      if (loss === 'importance_sampling') sum -= ratio * advantage
      else if (loss === 'ppo') sum -= Math.min(ratio * advantage, clamp(ratio, low, high) * advantage)
      else sum -= clamp(ratio, low, high) * advantage * logp
    }
  })
  return sum
}

/**
 * Weights w for which -Σ w log p has the gradient of the loss at these log-probabilities: minus the loss's derivative by each.
 *
 * GSPO (arXiv:2507.18071): the ratio s is exp of the mean log ratio over the masked tokens, the loss -Σ min(s A, clip(s) A) over them.
 */
export function sequenceWeights(config: Config, row: LossSequence, logprobs: Float32Array): Float32Array {
  const { slope, mask, count } = sequenceLoss(config, row, logprobs)
  return Float32Array.from(mask, (bit) => (count === 0 ? 0 : (slope * bit) / count))
}

function sequenceLoss(config: Config, row: LossSequence, logprobs: Float32Array) {
  const { low, high } = bounds(config)
  const mask = row.ratioMask ?? new Float32Array(logprobs.length)
  let count = 0
  let total = 0
  mask.forEach((bit, i) => {
    count += bit
    total += bit * ((logprobs[i] as number) - (row.logprobs[i] as number))
  })
  const ratio = count === 0 ? 1 : ratioOf(total / count)
  const bounded = clamp(ratio, low, high)
  let loss = 0
  let slope = 0
  mask.forEach((bit, i) => {
    const advantage = row.advantages[i] as number
    const isOpen = ratio * advantage <= bounded * advantage
    loss -= bit * (isOpen ? ratio : bounded) * advantage
    // inside the bounds both sides of the minimum are the ratio
    if (isOpen) slope += bit * ratio * advantage
  })
  return { loss, slope, mask, count }
}

function bounds(config: Config): { readonly low: number; readonly high: number } {
  return { low: config['clip_low_threshold'] ?? 0, high: config['clip_high_threshold'] ?? UNBOUNDED }
}

function ratioOf(logRatio: number): number {
  return Math.exp(clamp(logRatio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high)
}
