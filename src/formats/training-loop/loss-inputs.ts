/**
 * Which losses a request of a training loop may name, what each takes for every row, and the rows in the one form that a
 * training session computes.
 *
 * All are sums over tokens (`numerics/nn/summed-loss.ts` has the formulas). What is not served is refused by name, with what is.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { LossDatum, LossRequest, LossRequestHead, LossTensor } from './loss-request.js'

/** How a loss is computed. */
interface LossRow {
  /** Float inputs besides `target_tokens`, each as long as the row. */
  readonly inputs: readonly string[]
  /** Settings with their defaults. */
  readonly config: Readonly<Record<string, number>>
}

const RATIO_INPUTS = ['logprobs', 'advantages']
const CLIP = { clip_low_threshold: 0.8, clip_high_threshold: 1.2 }

export const SUMMED_LOSSES = {
  cross_entropy: { inputs: ['weights'], config: {} },
  importance_sampling: { inputs: RATIO_INPUTS, config: {} },
  ppo: { inputs: RATIO_INPUTS, config: CLIP },
  cispo: { inputs: RATIO_INPUTS, config: CLIP },
  dro: { inputs: RATIO_INPUTS, config: { beta: 0.05 } },
  gspo: { inputs: [...RATIO_INPUTS, 'sequence_ratio_mask'], config: CLIP },
} as const satisfies Readonly<Record<string, LossRow>>
export type SummedLoss = keyof typeof SUMMED_LOSSES

/** A row whose inputs were checked; all arrays have its length. */
export interface LossSequence {
  readonly tokens: Int32Array
  readonly targets: Int32Array
  /** The weight of each token, or its advantage. */
  readonly advantages: Float32Array
  /** The given log-probabilities; zeros for cross-entropy. */
  readonly logprobs: Float32Array
  /** Tokens that a sequence's ratio is taken over; null but for gspo. */
  readonly ratioMask: Float32Array | null
}

/** A request whose loss, settings and rows were checked. */
export interface CheckedLossRequest {
  readonly loss: SummedLoss
  readonly config: Readonly<Record<string, number>>
  readonly isForwardOnly: boolean
  readonly sequences: readonly LossSequence[]
}

/** What rows must keep to. */
export interface RowLimits {
  readonly vocabularySize: number
  /** Most tokens of a row. */
  readonly contextLength: number
}

/**
 * The loss and its settings.
 *
 * @throws {InvalidRequestError} `unsupported_loss`, `unknown_setting`, `invalid_setting`
 */
export function checkLoss(head: LossRequestHead): {
  readonly loss: SummedLoss
  readonly config: Record<string, number>
} {
  const { lossName } = head
  if (!isLoss(lossName)) {
    throw new InvalidRequestError(
      'unsupported_loss',
      `loss_fn must be one of ${Object.keys(SUMMED_LOSSES).join(', ')}, got "${lossName.slice(0, 60)}"`,
      { hint: 'or compute the loss yourself with forward_backward_custom' },
    )
  }
  const config: Record<string, number> = { ...SUMMED_LOSSES[lossName].config }
  for (const [name, value] of head.config) {
    if (!Object.hasOwn(config, name)) {
      const known = Object.keys(config)
      const expected = known.length === 0 ? 'none' : known.join(', ')
      throw new InvalidRequestError(
        'unknown_setting',
        `loss_fn_config of ${lossName} has "${name.slice(0, 60)}", expected ${expected}`,
      )
    }
    if (typeof value !== 'number' || !Number.isFinite(value)) {
      throw new InvalidRequestError('invalid_setting', `loss_fn_config.${name} must be a finite number`)
    }
    config[name] = value
  }
  const { clip_low_threshold: low, clip_high_threshold: high } = config
  if (low !== undefined && high !== undefined && !(low >= 0 && low <= high)) {
    throw new InvalidRequestError(
      'invalid_setting',
      `clip_low_threshold must lie between 0 and clip_high_threshold ${high}, got ${low}`,
      { hint: 'both are bounds of the ratio, not distances from 1' },
    )
  }
  return { loss: lossName, config }
}

/**
 * Checks a request.
 *
 * @throws {InvalidRequestError} as `checkLoss`; `empty_request`; `unknown_input`, `missing_input`, `invalid_input`, `invalid_token`,
 *   `row_too_long` naming the row
 */
export function checkLossRequest(request: LossRequest, limits: RowLimits): CheckedLossRequest {
  const { loss, config } = checkLoss(request)
  if (request.data.length === 0)
    throw new InvalidRequestError('empty_request', 'data is empty, expected at least one row')
  const sequences = request.data.map((datum, index) => checkDatum(datum, { index, loss, limits }))
  return { loss, config, isForwardOnly: request.isForwardOnly, sequences }
}

interface Where {
  readonly index: number
  readonly loss: SummedLoss
  readonly limits: RowLimits
}

function checkDatum(datum: LossDatum, where: Where): LossSequence {
  const { index, loss, limits } = where
  const { tokens } = datum
  if (tokens.length === 0) throw invalid('empty_row', `data[${index}] has no tokens`)
  if (tokens.length > limits.contextLength) {
    throw invalid(
      'row_too_long',
      `data[${index}] has ${tokens.length} tokens, the model's context is ${limits.contextLength}`,
    )
  }
  checkTokens(tokens, `data[${index}].model_input`, limits)
  const known: readonly string[] = ['target_tokens', ...SUMMED_LOSSES[loss].inputs]
  for (const name of datum.inputs.keys()) {
    if (!known.includes(name)) {
      throw invalid('unknown_input', `data[${index}] has "${name.slice(0, 60)}", ${loss} takes ${known.join(', ')}`)
    }
  }
  const targets = takeInput(datum, 'target_tokens', where)
  if (targets.isFloat) throw invalid('invalid_input', `data[${index}].target_tokens must be integers`)
  const ids = Int32Array.from(targets.values)
  checkTokens(ids, `data[${index}].target_tokens`, limits)
  const floats = (name: string): Float32Array => checkFinite(takeInput(datum, name, where), `data[${index}].${name}`)
  if (loss === 'cross_entropy') {
    // the client may leave them out: every token counts once
    const weights = datum.inputs.has('weights') ? floats('weights') : new Float32Array(tokens.length).fill(1)
    return { tokens, targets: ids, advantages: weights, logprobs: new Float32Array(tokens.length), ratioMask: null }
  }
  return {
    tokens,
    targets: ids,
    advantages: floats('advantages'),
    logprobs: floats('logprobs'),
    ratioMask: loss === 'gspo' ? floats('sequence_ratio_mask') : null,
  }
}

function takeInput(datum: LossDatum, name: string, { index, loss }: Where): LossTensor {
  const tensor = datum.inputs.get(name)
  if (tensor === undefined) throw invalid('missing_input', `data[${index}] has no ${name}, which ${loss} takes`)
  const isFlat = tensor.shape.length <= 1
  if (!isFlat || tensor.values.length !== datum.tokens.length) {
    const given = isFlat ? `${tensor.values.length} values` : `the shape [${tensor.shape.join(', ')}]`
    throw invalid(
      'invalid_input',
      `data[${index}].${name} has ${given}, expected one for each of ${datum.tokens.length} tokens`,
    )
  }
  return tensor
}

function checkFinite({ values }: LossTensor, name: string): Float32Array {
  const floats = Float32Array.from(values)
  const at = floats.findIndex((value) => !Number.isFinite(value))
  if (at >= 0) throw invalid('invalid_input', `${name}[${at}] is ${floats[at]}, expected a finite number`)
  return floats
}

function checkTokens(ids: Int32Array, name: string, { vocabularySize }: RowLimits): void {
  const at = ids.findIndex((id) => id < 0 || id >= vocabularySize)
  if (at >= 0) throw invalid('invalid_token', `${name}[${at}] is ${ids[at]}, the model has ${vocabularySize} tokens`)
}

function isLoss(name: string): name is SummedLoss {
  return Object.hasOwn(SUMMED_LOSSES, name)
}

function invalid(code: string, message: string): InvalidRequestError {
  return new InvalidRequestError(code, message)
}
