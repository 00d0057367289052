/**
 * What a training job does with its options: the request's `experimental_config` or `config` in the terms of the
 * trainer. Names stand in `contract/wire/training-options.ts`, bounds and defaults in `contract/jobs/training.ts`.
 *
 * Meanings are those of OpenPipe ART; `src/docs/how-training-works.md` has the formulas. Null counts as absent for every field,
 * because clients send null for what the user left unset. Options without effect are reported on the job's record, and what
 * is known but not available is refused (`contract/wire/option-notes.ts`), so that no option changes its meaning silently.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, withoutNulls } from '#base/util/json.js'
import {
  AUTO_BATCH_SIZE,
  CLIP_DEFAULTS,
  type LEARNING_RATE_SCHEDULES,
  LORA_DEFAULTS,
  SFT_EXTENSIONS,
  type TRAINING_PRECISIONS,
} from '#contract/jobs/training.js'
import type { JobKind } from '#contract/wire/job-words.js'
import {
  dpoOptionsSchema,
  parseOptions,
  type RlOptions,
  rlOptionsSchema,
  type SftOptions,
  sftOptionsSchema,
} from '#contract/wire/training-options.js'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import type { LossAggregation } from '#training/rows/advantages.js'

/** Arithmetic of the frozen layers: float32, or products of 8-bit integers. */
export type TrainingPrecision = (typeof TRAINING_PRECISIONS)[number]

/** Shape of a new adapter; null in a job's hyperparameters means the model's own, or the default for its first job. */
export interface LoraHyperparameters {
  /** Inner dimension R. */
  readonly rank: number
  /** The adapter's output is scaled by alpha / rank. */
  readonly alpha: number
}

/** A frozen policy: the base model, a step of the model (0: the base model), steps back from its start, or another's. */
export type KlReference =
  | { readonly kind: 'base' }
  | { readonly kind: 'step'; readonly step: number }
  | { readonly kind: 'lag'; readonly lag: number }
  | { readonly kind: 'adapter'; readonly address: string }

/** Everything an RL job needs to know besides its trajectories. Coefficients are dimensionless. */
export interface RlHyperparameters {
  readonly learningRate: number
  /** The loss and its modifiers, as the train graph takes them. */
  readonly policyLoss: PolicyLossOptions
  /** Divide advantages by the group's population standard deviation + 1e-6. Wire: `scale_rewards`, `normalize_advantages`. */
  readonly scaleRewards: boolean
  /** From -1 (only negative advantages train) over 0 to 1 (only positive ones). */
  readonly advantageBalance: number
  /** Old log-probabilities come from a forward pass before the first step; true whenever truncation is on. */
  readonly precalculateLogprobs: boolean
  /** Assistant turns without log-probabilities train too, as if sampled from the current policy. */
  readonly allowTrainingWithoutLogprobs: boolean
  /** What the KL penalty is measured to. Wire: `kl_penalty_reference_step`, `kl_penalty_step_lag`, `kl_ref_adapter_path`. */
  readonly klReference: KlReference
  /** Most positions whose logits exist at once. Tunes memory, changes no result. */
  readonly logprobCalculationChunkSize: number
  /** Tokens of ART's packed row: longer sequences are dropped, an optimizer step covers one row. Null for automatic. */
  readonly packedSequenceLength: number | null
  /** ART's packed rows per optimizer step. */
  readonly gradAccumulationSequences: number
  /** Tokens an optimizer step covers; drops nothing, a longer sequence makes a step of its own. Null for one packed row. */
  readonly tokensPerStep: number | null
  /** p in learning rate * (completions in the row)^p. */
  readonly numTrajectoriesLearningRateMultiplierPower: number
  /** How tokens share the loss: equal trajectories, equal tokens within a row, or equal tokens everywhere. */
  readonly lossAggregation: LossAggregation
  /** Choices that ended by length are context only. */
  readonly maskTruncated: boolean
  /** Nats per trained token an optimizer step may move the policy; longer updates are shortened. Null for no limit. */
  readonly targetKl: number | null
  /** How the frozen layers' products are computed. */
  readonly precision: TrainingPrecision
  /** Seeds the row shuffle and a new adapter; null means the job's id. */
  readonly seed: number | null
  readonly lora: LoraHyperparameters | null
}

/** Everything an SFT job needs to know besides its examples. */
export interface SftHyperparameters {
  /** Examples per optimizer step. */
  readonly batchSize: number
  /** One rate for all batches, or exactly one per batch. */
  readonly learningRate: number | readonly number[]
  /** Shape of the rate over all batches of all epochs; `constant` for a list. */
  readonly learningRateSchedule: (typeof LEARNING_RATE_SCHEDULES)[number]
  /** Batches over which the rate rises to its peak. */
  readonly warmupSteps: number
  /** Rate the warm-up starts from and the schedule ends at. */
  readonly minLearningRate: number
  /** Passes over the data, in the order of the file each time. */
  readonly epochs: number
  /** Decoupled weight decay of AdamW. */
  readonly weightDecay: number
  /** Which assistant turns train. */
  readonly assistantTurns: 'all' | 'last'
  /** Gradient steps between measurements on the validation rows; null measures after each epoch. */
  readonly validationInterval: number | null
  /** Measurements without a better one after which the job stops; null never. */
  readonly earlyStoppingPatience: number | null
  /** Nats by which a measurement must be lower to be better. */
  readonly earlyStoppingMinDelta: number
  /** The checkpoint holds the state with the lowest validation loss instead of the last one; default with early stopping. */
  readonly isBestKept: boolean
  /** How the frozen layers' products are computed. */
  readonly precision: TrainingPrecision
  /** Set when metrics shall be logged under `sft/` for this step. */
  readonly metricLogging: { readonly targetTrainingStep: number | null } | null
  readonly seed: number | null
  readonly lora: LoraHyperparameters | null
}

/** Everything a preference job needs to know besides its pairs. */
export interface DpoHyperparameters
  extends Omit<SftHyperparameters, 'learningRate' | 'assistantTurns' | 'metricLogging'> {
  /** Pairs per optimizer step. */
  readonly batchSize: number
  readonly learningRate: number
  /** How much a difference in log-probability counts. */
  readonly beta: number
  /** Share of pairs taken to be labelled the wrong way round. */
  readonly labelSmoothing: number
  /** The policy alone is compared, not its change from a reference. */
  readonly isReferenceFree: boolean
  /** Step of the model that is the reference, 0 the base model; null for the checkpoint the job starts from. */
  readonly referenceStep: number | null
}

/** AdamW and clipping: the values ART trains with. */
export interface OptimizerSettings {
  readonly beta1: number
  readonly beta2: number
  readonly epsilon: number
  readonly weightDecay: number
  /** Largest global norm of the gradient. */
  readonly maxGradientNorm: number
}

export const RL_OPTIMIZER: OptimizerSettings = {
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0.1,
  maxGradientNorm: 0.1,
}
export const SFT_OPTIMIZER: OptimizerSettings = {
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradientNorm: 1,
}
export const DEFAULT_LORA: LoraHyperparameters = LORA_DEFAULTS

/**
 * Fills in the defaults of an RL job.
 *
 * @param raw `experimental_config` of the request, nulls allowed
 * @throws {RequestValidationError} `invalid_value` naming every wrong option
 * @example resolveRlConfig({ ppo: true }).policyLoss.epsilonHigh // 0.2
 */
export function resolveRlConfig(raw: JsonObject): RlHyperparameters {
  const options = parseOptions(rlOptionsSchema, withoutNulls(raw), 'experimental_config')
  const policyLoss = toPolicyLoss(options)
  return {
    learningRate: options.learning_rate,
    policyLoss,
    scaleRewards: options.scale_rewards && options.normalize_advantages,
    advantageBalance: options.advantage_balance,
    precalculateLogprobs: options.precalculate_logprobs || policyLoss.truncation !== null,
    allowTrainingWithoutLogprobs: options.allow_training_without_logprobs,
    klReference: resolveReference(options),
    logprobCalculationChunkSize: options.logprob_calculation_chunk_size,
    packedSequenceLength: options.packed_sequence_length ?? null,
    tokensPerStep: options.tokens_per_step ?? null,
    gradAccumulationSequences: options.grad_accumulation_sequences,
    numTrajectoriesLearningRateMultiplierPower: options.num_trajectories_learning_rate_multiplier_power,
    lossAggregation: options.loss_aggregation,
    maskTruncated: options.mask_truncated,
    targetKl: options.target_kl ?? null,
    precision: options.precision,
    seed: options.seed ?? null,
    lora: options.lora ?? null,
  }
}

function toPolicyLoss(options: RlOptions): PolicyLossOptions {
  const loss = options.ppo || options.loss_fn === 'ppo' ? 'ppo' : 'cispo'
  const clip = CLIP_DEFAULTS[loss]
  const epsilon = options.epsilon ?? clip.epsilon
  const truncation = unsetWhenZero(options.truncated_importance_sampling)
  return {
    loss,
    epsilon,
    epsilonHigh: options.epsilon_high ?? clip.epsilonHigh ?? epsilon,
    ratioLevel: options.importance_sampling_level,
    maxRatio: unsetWhenZero(options.max_negative_advantage_importance_sampling_weight),
    isMaskedOutsideClip: options.mask_prob_ratio,
    tau: unsetWhenZero(aliased(options.alt_k2_tau, options.kimi_k2_tau)),
    kl:
      options.kl_penalty_coef === 0
        ? null
        : { coefficient: options.kl_penalty_coef, source: options.kl_penalty_source, isMeanGiven: false },
    truncation: truncation === null ? null : { limit: truncation, source: 'precalculated' },
  }
}

/**
 * Fills in the defaults of an SFT job.
 *
 * @param raw `config` of the request, nulls allowed; `seed` and `lora` may stand in it or in its `experimental_config`
 * @throws {RequestValidationError} `invalid_value` naming every wrong option
 */
export function resolveSftConfig(raw: JsonObject): SftHyperparameters {
  const options = parseOptions(sftOptionsSchema, flatSftConfig(withoutNulls(raw)), 'config')
  assertScheduleFits(options)
  const logging = options.metric_logging
  return {
    ...rowOptions(options),
    learningRate: options.learning_rate,
    assistantTurns: options.assistant_turns,
    metricLogging: logging?.enabled === true ? { targetTrainingStep: logging.target_training_step ?? null } : null,
  }
}

/** Options of an SFT job from both of their places; `config` comes first. @param config without nulls */
export function flatSftConfig({ experimental_config: nested, ...flat }: JsonObject): JsonObject {
  return { ...(nested !== undefined && isJsonObject(nested) ? pick(nested, SFT_EXTENSIONS) : {}), ...flat }
}

/**
 * Fills in the defaults of a preference job.
 *
 * @param raw `config` of the request, nulls allowed
 * @throws {RequestValidationError} `invalid_value` naming every wrong option
 */
export function resolveDpoConfig(raw: JsonObject): DpoHyperparameters {
  const options = parseOptions(dpoOptionsSchema, withoutNulls(raw), 'config')
  assertScheduleFits(options)
  if (options.reference_free && options.reference_step !== undefined) {
    throw new InvalidRequestError(
      'invalid_value',
      'config.reference_step names a reference, but reference_free is true.',
      {
        param: 'config.reference_step',
      },
    )
  }
  return {
    ...rowOptions(options),
    learningRate: options.learning_rate,
    beta: options.beta,
    labelSmoothing: options.label_smoothing,
    isReferenceFree: options.reference_free,
    referenceStep: options.reference_step ?? null,
  }
}

/** What jobs on rows of data have in common. */
function rowOptions(
  options: Omit<SftOptions, 'learning_rate' | 'assistant_turns' | 'metric_logging'>,
): Omit<SftHyperparameters, 'learningRate' | 'assistantTurns' | 'metricLogging'> {
  return {
    batchSize: options.batch_size === 'auto' ? AUTO_BATCH_SIZE : options.batch_size,
    learningRateSchedule: options.learning_rate_schedule,
    warmupSteps: options.warmup_steps,
    minLearningRate: options.min_learning_rate,
    epochs: options.epochs,
    weightDecay: options.weight_decay,
    validationInterval: options.validation_interval ?? null,
    earlyStoppingPatience: options.early_stopping_patience ?? null,
    earlyStoppingMinDelta: options.early_stopping_min_delta,
    isBestKept: options.keep_best ?? options.early_stopping_patience !== undefined,
    precision: options.precision,
    seed: options.seed ?? null,
    lora: options.lora ?? null,
  }
}

/**
 * Refuses options that measure on validation rows where a job has none.
 *
 * @throws {InvalidRequestError} `invalid_value` with `param`
 */
export function assertValidationOptions(raw: JsonObject, hasValidation: boolean): void {
  if (hasValidation) return
  const { experimental_config: nested, ...flat } = withoutNulls(raw)
  const given = { ...(nested !== undefined && isJsonObject(nested) ? nested : {}), ...flat }
  const name = ['validation_interval', 'early_stopping_patience', 'keep_best'].find((key) => {
    return given[key] !== undefined && given[key] !== false
  })
  if (name === undefined) return
  throw new InvalidRequestError('invalid_value', `config.${name} needs validation rows, but the job has none.`, {
    param: `config.${name}`,
    hint: 'give validation_data_url, or leave the option out',
  })
}

/** A list says every rate itself, and a rate cannot fall to more than its peak. */
function assertScheduleFits(
  options: Pick<SftOptions, 'learning_rate' | 'learning_rate_schedule' | 'warmup_steps' | 'min_learning_rate'>,
): void {
  const {
    learning_rate: peak,
    learning_rate_schedule: schedule,
    warmup_steps: warmup,
    min_learning_rate: least,
  } = options
  const refuse = (name: string, reason: string): never => {
    throw new InvalidRequestError('invalid_value', `config.${name} ${reason}.`, { param: `config.${name}` })
  }
  if (typeof peak === 'number') {
    if (least > peak) refuse('min_learning_rate', `is ${least}, more than the learning rate of ${peak}`)
    return
  }
  if (schedule !== 'constant') refuse('learning_rate_schedule', 'needs one learning rate, but a list was given')
  if (warmup > 0) refuse('warmup_steps', 'needs one learning rate, but a list was given')
}

/** At most one of the three names a reference; an address without a step would mean another policy with every job. */
function resolveReference(config: RlOptions): KlReference {
  const { kl_penalty_reference_step: step, kl_penalty_step_lag: lag, kl_ref_adapter_path: address } = config
  const given = [
    ['kl_penalty_reference_step', step],
    ['kl_penalty_step_lag', lag],
    ['kl_ref_adapter_path', address],
  ].flatMap(([name, value]) => (value === undefined ? [] : [String(name)]))
  if (given.length > 1) {
    throw new InvalidRequestError(
      'invalid_value',
      `experimental_config names several KL references: ${given.join(', ')}.`,
      {
        param: `experimental_config.${given[1]}`,
        hint: 'Leave all but one out; without any the reference is the base model.',
      },
    )
  }
  if (step !== undefined) return { kind: 'step', step }
  if (lag !== undefined) return { kind: 'lag', lag }
  if (address === undefined) return { kind: 'base' }
  if (/:(?:step|v)\d{1,9}$/.test(address)) return { kind: 'adapter', address }
  throw new InvalidRequestError(
    'invalid_value',
    `experimental_config.kl_ref_adapter_path must be a checkpoint of this service, such as project/name:step3, got "${address.slice(0, 200)}".`,
    {
      param: 'experimental_config.kl_ref_adapter_path',
      hint: 'Files of the training machine are not read. A model of the same base model and a step name the reference.',
    },
  )
}

/** The frozen policy other than the job's start that its stored options name: that of a KL penalty or of a preference loss. */
export function referenceOf(kind: JobKind, config: JsonObject): KlReference | null {
  if (kind === 'dpo') {
    const { referenceStep } = resolveDpoConfig(config)
    return referenceStep === null ? null : { kind: 'step', step: referenceStep }
  }
  return kind === 'rl' ? klReferenceOf(config) : null
}

function klReferenceOf(config: JsonObject): KlReference | null {
  const { policyLoss, klReference } = resolveRlConfig(pick(withoutNulls(config), KL_KEYS))
  return policyLoss.kl === null ? null : klReference
}

const KL_KEYS = ['kl_penalty_coef', 'kl_penalty_reference_step', 'kl_penalty_step_lag', 'kl_ref_adapter_path']

function aliased(ours: number | undefined, upstream: number | undefined): number | undefined {
  if (ours !== undefined && upstream !== undefined && ours !== upstream) {
    throw new InvalidRequestError(
      'invalid_value',
      `experimental_config.alt_k2_tau is ${ours} but its alias kimi_k2_tau is ${upstream}.`,
      {
        param: 'experimental_config.alt_k2_tau',
      },
    )
  }
  return ours ?? upstream
}

function unsetWhenZero(value: number | undefined): number | null {
  return value === undefined || value === 0 ? null : value
}

function pick(object: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => keys.includes(key)))
}
