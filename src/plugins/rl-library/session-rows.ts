/**
 * Rows of a training session, the losses over them, and how both are put on the wire.
 *
 * The wire shifts: its position i predicts its target i, and its arrays begin with the prompt. Here a row is a prompt and what comes
 * after it, and all numbers are about the latter. Tokens of the prompt are given weights, advantages and masks of 0.
 */
import { AppError } from '#base/errors/errors.js'
import type { WireRow } from './training-loop-messages.js'

/** One row of a session. P: tokens of its prompt, N: tokens after it. */
export interface SessionRow {
  /** Token ids [P], at least one: what comes before, of which nothing is learned. */
  readonly prompt: readonly number[]
  /** Token ids [N], at least one: what the loss is over. */
  readonly tokens: readonly number[]
}

/** A row of `cross_entropy`. */
export interface WeightedRow extends SessionRow {
  /** Weight of each token [N], or one for all; default 1. 0: not trained. */
  readonly weights?: number | readonly number[]
}

/** A row of the other losses: what a policy sampled, and how good it was. */
export interface SampledRow extends SessionRow {
  /** Log-probability of each token when it was sampled [N], nats. */
  readonly logprobs: readonly number[]
  /** Advantage of each token [N], or one for all. */
  readonly advantages: number | readonly number[]
}

/** Settings of a built-in loss. */
export interface LossConfig {
  /** `ppo`, `cispo`, `gspo`: lower bound of the ratio, not a distance from 1. Default 0.8. */
  readonly clipLow?: number
  /** The same, upper. Default 1.2. */
  readonly clipHigh?: number
  /** `dro`: weight of the squared log ratio. Default 0.05. */
  readonly beta?: number
}

export type LossName = 'cross_entropy' | 'importance_sampling' | 'ppo' | 'cispo' | 'gspo' | 'dro'

/** What a loss of one's own is at these log-probabilities. */
export interface LossValue {
  /** Any unit; larger is worse. */
  readonly loss: number
  /** The loss's derivative by each log-probability: one array [N] per row. */
  readonly gradients: readonly ArrayLike<number>[]
}

/**
 * A loss of one's own.
 *
 * @param logprobs log-probability of each row's tokens under the weights as they are: one array [N] per row, nats
 * @param rows as they were given, with whatever else they hold
 */
export type LossFunction<Row extends SessionRow = SessionRow> = (
  logprobs: readonly Float32Array[],
  rows: readonly Row[],
) => LossValue | Promise<LossValue>

/** A row of any loss, read leniently: types of callers without a compiler are not known. */
type AnyRow = SessionRow & Partial<Omit<WeightedRow & SampledRow, keyof SessionRow>>

/** What each loss that the server computes takes. `dro` is not among them: its penalty would fall on prompts, too. */
const SERVED: Readonly<
  Record<
    Exclude<LossName, 'dro'>,
    { readonly inputs: readonly string[]; readonly config: readonly (keyof LossConfig)[] }
  >
> = {
  cross_entropy: { inputs: ['weights'], config: [] },
  importance_sampling: { inputs: ['logprobs', 'advantages'], config: [] },
  ppo: { inputs: ['logprobs', 'advantages'], config: ['clipLow', 'clipHigh'] },
  cispo: { inputs: ['logprobs', 'advantages'], config: ['clipLow', 'clipHigh'] },
  gspo: { inputs: ['logprobs', 'advantages', 'sequence_ratio_mask'], config: ['clipLow', 'clipHigh'] },
}
const WIRE_NAMES = { clipLow: 'clip_low_threshold', clipHigh: 'clip_high_threshold', beta: 'beta' } as const
const DRO_BETA = 0.05

/** How a loss is asked for. */
export type LossPlan =
  | { readonly kind: 'served'; readonly loss: string; readonly config: Readonly<Record<string, number>> }
  | { readonly kind: 'own'; readonly loss: LossFunction<never> }

/** @throws {AppError} `unsupported_loss`, `unknown_setting`, `invalid_setting` */
export function planLoss(loss: LossName | LossFunction<never>, config: LossConfig = {}): LossPlan {
  const given = Object.entries(config).filter(([, value]) => value !== undefined)
  const known = typeof loss === 'function' ? [] : loss === 'dro' ? ['beta'] : (SERVED[loss]?.config ?? [])
  if (typeof loss !== 'function' && loss !== 'dro' && !Object.hasOwn(SERVED, loss)) {
    const names = [...Object.keys(SERVED), 'dro'].join(', ')
    throw invalid('unsupported_loss', `loss must be one of ${names} or a function, got "${String(loss).slice(0, 60)}"`)
  }
  const title = typeof loss === 'function' ? 'a function' : loss
  for (const [name, value] of given) {
    if (!(known as readonly string[]).includes(name)) {
      const expected = known.length === 0 ? 'none' : known.join(', ')
      throw invalid('unknown_setting', `the settings of ${title} have "${name.slice(0, 60)}", expected ${expected}`)
    }
    if (!Number.isFinite(value)) throw invalid('invalid_setting', `${name} must be a finite number, got ${value}`)
  }
  if (typeof loss === 'function') return { kind: 'own', loss }
  if (loss === 'dro') return { kind: 'own', loss: directLoss(config.beta ?? DRO_BETA) as LossFunction<never> }
  const wire = given.map(([name, value]) => [WIRE_NAMES[name as keyof LossConfig], value as number] as const)
  return { kind: 'served', loss, config: Object.fromEntries(wire) }
}

/**
 * Rows as the wire has them, with what a served loss takes.
 *
 * @throws {AppError} `empty_request`, `empty_row`, `missing_input`, `invalid_input`, naming the row
 */
export function toWireRows(rows: readonly SessionRow[], loss: string): WireRow[] {
  if (rows.length === 0) throw invalid('empty_request', 'rows is empty, expected at least one row')
  const { inputs } = SERVED[loss as keyof typeof SERVED]
  return rows.map((row: AnyRow, index) => {
    checkRow(row, index)
    const tokens = [...row.prompt, ...row.tokens]
    const pad = row.prompt.length - 1
    const values = inputs.map((name) => [name, padded(pad, inputOf(row, name, { index, loss }))] as const)
    return { tokens: tokens.slice(0, -1), targets: tokens.slice(1), inputs: Object.fromEntries(values) }
  })
}

/** The same rows for a loss of one's own: its gradients as the weights of a cross-entropy that has the same ones. */
export function withGradients(rows: readonly SessionRow[], { loss, gradients }: LossValue): WeightedRow[] {
  if (!Number.isFinite(loss)) throw invalid('non_finite_loss', `the loss function returned the loss ${loss}`)
  if (!Array.isArray(gradients) || gradients.length !== rows.length) {
    throw invalid(
      'invalid_gradients',
      `the loss function returned gradients of ${gradients?.length} rows, expected one array for each of ${rows.length}`,
    )
  }
  return rows.map(({ prompt, tokens }, index) => {
    const slopes = Array.from(gradients[index] as ArrayLike<number>)
    const wrong = slopes.findIndex((slope) => !Number.isFinite(slope))
    if (slopes.length !== tokens.length || wrong >= 0) {
      const given = wrong >= 0 ? `${slopes[wrong]} at ${wrong}` : `${slopes.length} numbers`
      throw invalid(
        'invalid_gradients',
        `the loss function returned ${given} as gradients[${index}], expected ${tokens.length} finite numbers`,
      )
    }
    // -Σ w log p has the derivative -w
    return { prompt, tokens, weights: slopes.map((slope) => -slope) }
  })
}

/** Of arrays over whole rows, what is about the tokens behind the prompt. */
export function withoutPrompts(rows: readonly SessionRow[], values: readonly Float32Array[]): Float32Array[] {
  return rows.map(({ prompt }, i) => (values[i] as Float32Array).slice(prompt.length - 1))
}

/** Direct reward optimization (arXiv:2405.19107): -Σ (A log p - β/2 (log p - log q)²). @param beta weight of the penalty */
function directLoss(beta: number): LossFunction<SampledRow> {
  return (logprobs, rows) => {
    let loss = 0
    const gradients = rows.map((row, index) => {
      const where = { index, loss: 'dro' }
      const [old, advantages] = [inputOf(row, 'logprobs', where), inputOf(row, 'advantages', where)]
      return Array.from(logprobs[index] as Float32Array, (logp, i) => {
        const [advantage, distance] = [advantages[i] as number, logp - (old[i] as number)]
        loss -= advantage * logp - (beta / 2) * distance * distance
        return beta * distance - advantage
      })
    })
    return { loss, gradients }
  }
}

interface Where {
  readonly index: number
  readonly loss: string
}

function checkRow({ prompt, tokens }: SessionRow, index: number): void {
  for (const [name, ids] of Object.entries({ prompt, tokens })) {
    if (!Array.isArray(ids) || ids.length === 0) {
      throw invalid('empty_row', `rows[${index}].${name} has no tokens, expected at least one token id`)
    }
    const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id > 2 ** 31 - 1)
    if (wrong >= 0)
      throw invalid('invalid_token', `rows[${index}].${name}[${wrong}] is ${ids[wrong]}, expected a token id`)
  }
}

/** [N] of a row. */
export function inputOf(row: AnyRow, name: string, { index, loss }: Where): readonly number[] {
  const { length } = row.tokens
  if (name === 'sequence_ratio_mask') return new Array<number>(length).fill(1)
  const given = row[name as 'weights' | 'logprobs' | 'advantages'] ?? (name === 'weights' ? 1 : undefined)
  if (given === undefined) throw invalid('missing_input', `rows[${index}] has no ${name}, which ${loss} takes`)
  if (typeof given === 'number' && name !== 'logprobs')
    return checkFinite(new Array<number>(length).fill(given), name, index)
  if (!Array.isArray(given) || given.length !== length) {
    const what = Array.isArray(given) ? `${given.length} numbers` : `a ${typeof given}`
    throw invalid(
      'invalid_input',
      `rows[${index}].${name} has ${what}, expected one number for each of ${length} tokens`,
    )
  }
  return checkFinite(given, name, index)
}

function checkFinite(values: readonly number[], name: string, index: number): readonly number[] {
  const wrong = values.findIndex((value) => !Number.isFinite(value))
  if (wrong < 0) return values
  throw invalid('invalid_input', `rows[${index}].${name}[${wrong}] is ${values[wrong]}, expected a finite number`)
}

function padded(pad: number, values: readonly number[]): number[] {
  return [...new Array<number>(pad).fill(0), ...values]
}

function invalid(code: string, message: string): AppError {
  return new AppError('invalid_request', code, message)
}
