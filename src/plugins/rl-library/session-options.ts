/**
 * Types of a training session: its options, the settings of an update and of sampling, and the results; and how
 * update settings are put on the wire.
 */
import { AppError } from '#base/errors/errors.js'

export interface SessionOptions {
  /** Inner dimension of the adapter, default 8. Its output is scaled by 32 / rank. */
  readonly rank?: number
  /** Of the adapter's beginning; the same seed gives the same bits. */
  readonly seed?: number
  /** Train MLP layers, default true. */
  readonly trainMlp?: boolean
  /** Train attention layers, default true. */
  readonly trainAttention?: boolean
  /**
   * What it begins with: a step of the model, `base` for a new adapter on the base model, or a path that `saveState` or `save` gave. Default
   * the latest step. An adapter that is there has its shape: all options above are for `base`. A path of `saveState` has the optimizer as well.
   */
  readonly from?: number | 'base' | (string & {})
  /** Aborting ends the session: calls that wait reject with the signal's reason. */
  readonly signal?: AbortSignal
}

/** Settings of one AdamW update; all without unit. */
export interface OptimSettings {
  readonly learningRate: number
  /** Default 0.9. */
  readonly beta1?: number
  /** Default 0.95. */
  readonly beta2?: number
  /** Default 1e-12. */
  readonly epsilon?: number
  /** Default 0. */
  readonly weightDecay?: number
  /** Larger gradients are scaled to this norm; default 0: none are. */
  readonly maxGradientNorm?: number
}

export interface LossResult {
  /** Sum over all tokens of all rows, no mean. */
  readonly loss: number
  /** Log-probability of each row's tokens before any update: one array [N] per row, nats. */
  readonly logprobs: readonly Float32Array[]
}

export interface SamplingOptions {
  /** Answers to the prompt, default 1. */
  readonly n?: number
  /** Longest answer, tokens; default what is left of the context. */
  readonly maxTokens?: number
  /** Default 1. */
  readonly temperature?: number
  /** Default 1: all. */
  readonly topP?: number
  /** Default -1: all. */
  readonly topK?: number
  readonly seed?: number
  /** Texts that end an answer beside the end of sequence, or token ids that end it in its place; none of them: nothing ends it. */
  readonly stop?: readonly string[] | readonly number[]
}

/** An answer; with the prompt and an advantage it is a row that trains. */
export interface SessionSample {
  /** Token ids [N], with what ended it. */
  readonly tokens: readonly number[]
  /** Log-probability of each token [N], nats. */
  readonly logprobs: readonly number[]
  readonly stopReason: 'stop' | 'length'
}

export interface SavedCheckpoint {
  /** For `from` of another session; without the optimizer. */
  readonly path: string
  /** Step of the model's checkpoint. */
  readonly step: number
  /** What to chat with, as `model` of a request. */
  readonly inferenceName: string
}

/** The model that a session belongs to. */
export interface SessionModel {
  readonly id: string
  readonly name: string
  readonly baseModel: string
  /** The latest; 0 without any checkpoint. */
  readonly step: number
  /** @param step null: the latest */
  readonly inferenceName: (step: number | null) => string
  readonly onSaved: (step: number) => void
}

const ADAM_NAMES = {
  learningRate: 'learning_rate',
  beta1: 'beta1',
  beta2: 'beta2',
  epsilon: 'eps',
  weightDecay: 'weight_decay',
  maxGradientNorm: 'grad_clip_norm',
} as const

/** As the wire has them. @throws {AppError} `missing_setting`, `unknown_setting`, `invalid_setting` */
export function toAdamParams(settings: OptimSettings): Record<string, number> {
  if (settings.learningRate === undefined) {
    throw new AppError('invalid_request', 'missing_setting', 'optimStep needs a learningRate, for example 1e-3')
  }
  const wire: Record<string, number> = {}
  for (const [name, value] of Object.entries(settings)) {
    if (!Object.hasOwn(ADAM_NAMES, name)) {
      const expected = Object.keys(ADAM_NAMES).join(', ')
      throw new AppError('invalid_request', 'unknown_setting', `optimStep has no "${name}", expected ${expected}`)
    }
    if (value === undefined) continue
    if (!(Number.isFinite(value) && value >= 0)) {
      throw new AppError('invalid_request', 'invalid_setting', `${name} must be a number of at least 0, got ${value}`)
    }
    wire[ADAM_NAMES[name as keyof OptimSettings]] = value as number
  }
  return wire
}
