/**
 * What a training job does with its options: the request's `experimental_config` or `config` with every default filled in.
 *
 * Names, defaults and meanings are those of OpenPipe ART; `src/docs/how-training-works.md` has the formulas. Null counts as
 * absent for every field, because clients send null for what the user left unset. Unknown fields are ignored, because older
 * and newer clients differ. What is known but not available is refused, so that no option changes its meaning silently.
 *
 * Accepted without effect, because they tune memory or debugging of another trainer: `logprob_calculation_chunk_size`,
 * `plot_tensors`; and `scale_learning_rate_by_reward_std_dev`, which the hosted service's released code does not apply either.
 */

import { z } from '@hono/zod-openapi'
import { AppError, InvalidRequestError } from '#base/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { LossAggregation } from '#training/data/advantages.js'

export type ImportanceSamplingLevel = 'token' | 'sequence' | 'average' | 'geometric_average'

/** Shape of a new adapter; null in a job's hyperparameters means the model's own, or the default for its first job. */
export interface LoraHyperparameters {
  /** Inner dimension R. */
  readonly rank: number
  /** The adapter's output is scaled by alpha / rank. */
  readonly alpha: number
}

/** Everything an RL job needs to know besides its trajectories. Ratios, epsilons and coefficients are dimensionless. */
export interface RlHyperparameters {
  readonly learningRate: number
  /** `cispo` clips the detached importance weight; `ppo` takes the pessimistic minimum. Wire: `ppo`, `loss_fn`. */
  readonly loss: 'cispo' | 'ppo'
  /** Ratios are clipped below at 1 - epsilon. */
  readonly epsilon: number
  /** Ratios are clipped above at 1 + epsilonHigh. */
  readonly epsilonHigh: number
  readonly importanceSamplingLevel: ImportanceSamplingLevel
  /** Divide advantages by the group's population standard deviation + 1e-6. Wire: `scale_rewards`, `normalize_advantages`. */
  readonly scaleRewards: boolean
  /** From -1 (only negative advantages train) over 0 to 1 (only positive ones). */
  readonly advantageBalance: number
  /** Upper bound of the ratio of all tokens, whatever the sign of the advantage, as ART does; null for none. */
  readonly maxNegativeAdvantageImportanceSamplingWeight: number | null
  /** Tokens whose ratio lies outside the clip range have zero gradient. */
  readonly maskProbRatio: boolean
  /** A_t is reduced by tau times the detached log-ratio. Wire: `alt_k2_tau`, `kimi_k2_tau`. */
  readonly altK2Tau: number | null
  /** Old log-probabilities come from a forward pass before the first step; true whenever truncation is on. */
  readonly precalculateLogprobs: boolean
  /** Cap of the sampler-to-trainer correction weight; null for none. */
  readonly truncatedImportanceSampling: number | null
  /** Assistant turns without log-probabilities train too, as if sampled from the current policy. */
  readonly allowTrainingWithoutLogprobs: boolean
  /** Strength of the centred KL term added to advantages; measured to the base model without adapter. */
  readonly klPenaltyCoef: number
  readonly klPenaltySource: 'current_learner' | 'sample'
  /** Tokens per packed row; null for automatic. */
  readonly packedSequenceLength: number | null
  /** Packed rows per optimizer step. */
  readonly gradAccumulationSequences: number
  /** p in learning rate * (completions in the row)^p. */
  readonly numTrajectoriesLearningRateMultiplierPower: number
  /** How tokens share the loss: equal trajectories, equal tokens within a row, or equal tokens everywhere. */
  readonly lossAggregation: LossAggregation
  /** Choices that ended by length are context only. */
  readonly maskTruncated: boolean
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
  /** Which assistant turns train. */
  readonly assistantTurns: 'all' | 'last'
  /** Set when metrics shall be logged under `sft/` for this step. */
  readonly metricLogging: { readonly targetTrainingStep: number | null } | null
  readonly seed: number | null
  readonly lora: LoraHyperparameters | null
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
export const DEFAULT_LORA: LoraHyperparameters = { rank: 8, alpha: 16 }

/** Most tokens a packed row may be asked to hold. */
export const MAX_PACKED_SEQUENCE_LENGTH = 131_072
const MAX_LORA_RANK = 256
const MAX_ROWS_PER_STEP = 4096
const MAX_BATCH_SIZE = 65_536

const learningRate = z.number().min(0).max(1)
const ratioBound = z.number().min(0)
const seed = z.number().int().safe()
const lora = z.object({
  rank: z.number().int().min(1).max(MAX_LORA_RANK).optional(),
  alpha: z.number().positive().optional(),
})

const rlSchema = z.object({
  learning_rate: learningRate.default(5e-6),
  ppo: z.boolean().default(false),
  loss_fn: z.enum(['cispo', 'ppo']).default('cispo'),
  epsilon: ratioBound.optional(),
  epsilon_high: ratioBound.optional(),
  importance_sampling_level: z.enum(['token', 'sequence', 'average', 'geometric_average']).default('token'),
  scale_rewards: z.boolean().default(true),
  normalize_advantages: z.boolean().default(true),
  advantage_balance: z.number().min(-1).max(1).default(0),
  max_negative_advantage_importance_sampling_weight: ratioBound.optional(),
  mask_prob_ratio: z.boolean().default(false),
  alt_k2_tau: z.number().min(0).optional(),
  kimi_k2_tau: z.number().min(0).optional(),
  precalculate_logprobs: z.boolean().default(false),
  truncated_importance_sampling: ratioBound.optional(),
  allow_training_without_logprobs: z.boolean().default(false),
  kl_penalty_coef: z.number().min(0).default(0),
  kl_penalty_source: z.enum(['current_learner', 'sample']).default('current_learner'),
  kl_penalty_reference_step: z.number().int().min(0).optional(),
  kl_penalty_step_lag: z.number().int().min(1).optional(),
  kl_ref_adapter_path: z.string().optional(),
  packed_sequence_length: z.number().int().min(2).max(MAX_PACKED_SEQUENCE_LENGTH).optional(),
  grad_accumulation_sequences: z.number().int().min(1).max(MAX_ROWS_PER_STEP).default(1),
  num_trajectories_learning_rate_multiplier_power: z.number().min(-8).max(8).default(0),
  logprob_calculation_chunk_size: z.number().int().min(1).optional(),
  scale_learning_rate_by_reward_std_dev: z.boolean().optional(),
  plot_tensors: z.boolean().optional(),
  loss_aggregation: z.enum(['trajectory', 'token', 'constant']).default('trajectory'),
  mask_truncated: z.boolean().default(false),
  seed: seed.optional(),
  lora: lora.optional(),
})

const sftSchema = z.object({
  batch_size: z
    .union([z.literal('auto'), z.number().int().min(1).max(MAX_BATCH_SIZE)], {
      error: `expected 'auto' or an integer from 1 to ${MAX_BATCH_SIZE}`,
    })
    .default('auto'),
  learning_rate: z
    .union([learningRate, z.array(learningRate).min(1)], { error: 'expected a number from 0 to 1 or a list of them' })
    .default(5e-5),
  assistant_turns: z.enum(['all', 'last']).default('all'),
  metric_logging: z
    .object({ enabled: z.boolean().default(false), target_training_step: z.number().int().min(0).optional() })
    .optional(),
  seed: seed.optional(),
  lora: lora.optional(),
})

/**
 * Fills in the defaults of an RL job.
 *
 * @param raw `experimental_config` of the request, nulls allowed
 * @throws {InvalidRequestError} `invalid_value` with `param` like `experimental_config.epsilon`;
 *   {AppError} of category `not_implemented` for KL references other than the base model
 * @example resolveRlConfig({ ppo: true }).epsilonHigh // 0.2
 */
export function resolveRlConfig(raw: JsonObject): RlHyperparameters {
  const config = parseConfig(rlSchema, raw, 'experimental_config')
  assertSupportedReference(config)
  const loss = config.ppo || config.loss_fn === 'ppo' ? 'ppo' : 'cispo'
  const epsilon = config.epsilon ?? (loss === 'ppo' ? 0.2 : 1)
  const truncation = config.truncated_importance_sampling ?? null
  return {
    learningRate: config.learning_rate,
    loss,
    epsilon,
    epsilonHigh: config.epsilon_high ?? (loss === 'ppo' ? epsilon : 4),
    importanceSamplingLevel: config.importance_sampling_level,
    scaleRewards: config.scale_rewards && config.normalize_advantages,
    advantageBalance: config.advantage_balance,
    maxNegativeAdvantageImportanceSamplingWeight: unsetWhenZero(
      config.max_negative_advantage_importance_sampling_weight,
    ),
    maskProbRatio: config.mask_prob_ratio,
    altK2Tau: unsetWhenZero(aliased(config.alt_k2_tau, config.kimi_k2_tau)),
    precalculateLogprobs: config.precalculate_logprobs || truncation !== null,
    truncatedImportanceSampling: truncation,
    allowTrainingWithoutLogprobs: config.allow_training_without_logprobs,
    klPenaltyCoef: config.kl_penalty_coef,
    klPenaltySource: config.kl_penalty_source,
    packedSequenceLength: config.packed_sequence_length ?? null,
    gradAccumulationSequences: config.grad_accumulation_sequences,
    numTrajectoriesLearningRateMultiplierPower: config.num_trajectories_learning_rate_multiplier_power,
    lossAggregation: config.loss_aggregation,
    maskTruncated: config.mask_truncated,
    seed: config.seed ?? null,
    lora: resolveLora(config.lora),
  }
}

/**
 * Fills in the defaults of an SFT job.
 *
 * @param raw `config` of the request, nulls allowed; `seed` and `lora` may stand in it or in its `experimental_config`
 * @throws {InvalidRequestError} `invalid_value` with `param` like `config.learning_rate[3]`
 */
export function resolveSftConfig(raw: JsonObject): SftHyperparameters {
  const { experimental_config: nested, ...flat } = withoutNulls(raw)
  const extensions = nested !== undefined && isPlainObject(nested) ? withoutNulls(nested) : {}
  const config = parseConfig(sftSchema, { ...pick(extensions, ['seed', 'lora']), ...flat }, 'config')
  const logging = config.metric_logging
  return {
    batchSize: config.batch_size === 'auto' ? 2 : config.batch_size,
    learningRate: config.learning_rate,
    assistantTurns: config.assistant_turns,
    metricLogging: logging?.enabled === true ? { targetTrainingStep: logging.target_training_step ?? null } : null,
    seed: config.seed ?? null,
    lora: resolveLora(config.lora),
  }
}

function parseConfig<Schema extends z.ZodType>(schema: Schema, raw: JsonObject, root: string): z.output<Schema> {
  const result = schema.safeParse(withoutNulls(raw))
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const param = [root, ...(issue?.path ?? [])].reduce<string>(
    (path, key) => (typeof key === 'number' ? `${path}[${key}]` : path === '' ? String(key) : `${path}.${String(key)}`),
    '',
  )
  throw new InvalidRequestError(
    'invalid_value',
    `${param} is not valid: ${lowerFirst(issue?.message ?? 'wrong value')}.`,
    { param },
  )
}

/** Only the base model can be the KL reference: a checkpoint's files or foreign paths are not handed to workers. */
function assertSupportedReference(config: z.output<typeof rlSchema>): void {
  const given: [string, unknown][] = [
    [
      'kl_penalty_reference_step',
      config.kl_penalty_reference_step === 0 ? undefined : config.kl_penalty_reference_step,
    ],
    ['kl_penalty_step_lag', config.kl_penalty_step_lag],
    ['kl_ref_adapter_path', config.kl_ref_adapter_path],
  ]
  for (const [name, value] of given) {
    if (value === undefined) continue
    throw new AppError('not_implemented', 'unsupported_option', `experimental_config.${name} is not supported yet.`, {
      param: `experimental_config.${name}`,
      hint: 'Leave it out: the KL penalty is then measured to the base model.',
    })
  }
}

function resolveLora(value: z.output<typeof lora> | undefined): LoraHyperparameters | null {
  if (value === undefined) return null
  return { rank: value.rank ?? DEFAULT_LORA.rank, alpha: value.alpha ?? DEFAULT_LORA.alpha }
}

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

function withoutNulls(raw: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(raw)
      .filter(([, value]) => value !== null)
      .map(([key, value]) => [key, value !== undefined && isPlainObject(value) ? withoutNulls(value) : value]),
  )
}

function pick(object: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => keys.includes(key)))
}

function isPlainObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1)
}
