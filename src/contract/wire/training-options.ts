/**
 * The options of training jobs as clients send them: `experimental_config` of an RL job, `config` of an SFT job.
 *
 * Bounds and defaults are in `contract/jobs/training.ts`, meanings in `training/hyperparameters.ts`. Scalars are read as leniently as everywhere (`lax.ts`). Null counts as absent;
 * whoever parses strips it first. An option without a default here has one that depends on other options.
 */
import { z } from 'zod'
import type { JsonObject } from '#base/util/json.js'
import {
  ADVANTAGE_BALANCE,
  ASSISTANT_TURNS,
  BATCH_SIZE,
  BETA,
  DPO_DEFAULTS,
  EARLY_STOPPING_MIN_DELTA,
  EARLY_STOPPING_PATIENCE,
  EPOCHS,
  GRAD_ACCUMULATION_SEQUENCES,
  IMPORTANCE_SAMPLING_LEVELS,
  KL_PENALTY_COEF,
  KL_PENALTY_SOURCES,
  LABEL_SMOOTHING,
  LEARNING_RATE,
  LEARNING_RATE_SCHEDULES,
  LORA_ALPHA,
  LORA_DEFAULTS,
  LORA_RANK,
  LOSS_AGGREGATIONS,
  MULTIPLIER_POWER,
  PACKED_SEQUENCE_LENGTH,
  POLICY_LOSSES,
  RATIO_BOUND,
  RL_DEFAULTS,
  SFT_DEFAULTS,
  TARGET_KL,
  TAU,
  TRAINING_PRECISIONS,
  VALIDATION_INTERVAL,
  WARMUP_STEPS,
  WEIGHT_DECAY,
} from '#contract/jobs/training.js'
import { RequestValidationError, toSentences, toValidationProblems } from './errors.js'
import { laxBoolean, laxInteger, laxNumber } from './lax.js'

const seedSchema = laxInteger()
const loraSchema = z.object({
  rank: laxInteger(LORA_RANK).default(LORA_DEFAULTS.rank),
  alpha: laxNumber(LORA_ALPHA).default(LORA_DEFAULTS.alpha),
})

export const rlOptionsSchema = z.object({
  learning_rate: laxNumber(LEARNING_RATE).default(RL_DEFAULTS.learning_rate),
  ppo: laxBoolean().default(false),
  loss_fn: z.enum(POLICY_LOSSES).default(RL_DEFAULTS.loss_fn),
  epsilon: laxNumber(RATIO_BOUND).optional(),
  epsilon_high: laxNumber(RATIO_BOUND).optional(),
  importance_sampling_level: z.enum(IMPORTANCE_SAMPLING_LEVELS).default(RL_DEFAULTS.importance_sampling_level),
  scale_rewards: laxBoolean().default(RL_DEFAULTS.scale_rewards),
  normalize_advantages: laxBoolean().default(RL_DEFAULTS.normalize_advantages),
  advantage_balance: laxNumber(ADVANTAGE_BALANCE).default(RL_DEFAULTS.advantage_balance),
  max_negative_advantage_importance_sampling_weight: laxNumber(RATIO_BOUND).optional(),
  mask_prob_ratio: laxBoolean().default(RL_DEFAULTS.mask_prob_ratio),
  alt_k2_tau: laxNumber(TAU).optional(),
  kimi_k2_tau: laxNumber(TAU).optional(),
  precalculate_logprobs: laxBoolean().default(RL_DEFAULTS.precalculate_logprobs),
  truncated_importance_sampling: laxNumber(RATIO_BOUND).optional(),
  allow_training_without_logprobs: laxBoolean().default(RL_DEFAULTS.allow_training_without_logprobs),
  kl_penalty_coef: laxNumber(KL_PENALTY_COEF).default(RL_DEFAULTS.kl_penalty_coef),
  kl_penalty_source: z.enum(KL_PENALTY_SOURCES).default(RL_DEFAULTS.kl_penalty_source),
  kl_penalty_reference_step: laxInteger({ min: 0 }).optional(),
  kl_penalty_step_lag: laxInteger({ min: 1 }).optional(),
  kl_ref_adapter_path: z.string().min(1).max(4096).optional(),
  packed_sequence_length: laxInteger(PACKED_SEQUENCE_LENGTH).optional(),
  tokens_per_step: laxInteger(PACKED_SEQUENCE_LENGTH).optional(),
  grad_accumulation_sequences: laxInteger(GRAD_ACCUMULATION_SEQUENCES).default(RL_DEFAULTS.grad_accumulation_sequences),
  num_trajectories_learning_rate_multiplier_power: laxNumber(MULTIPLIER_POWER).default(
    RL_DEFAULTS.num_trajectories_learning_rate_multiplier_power,
  ),
  logprob_calculation_chunk_size: laxInteger({ min: 1 }).default(RL_DEFAULTS.logprob_calculation_chunk_size),
  scale_learning_rate_by_reward_std_dev: laxBoolean().optional(),
  plot_tensors: laxBoolean().optional(),
  loss_aggregation: z.enum(LOSS_AGGREGATIONS).default(RL_DEFAULTS.loss_aggregation),
  mask_truncated: laxBoolean().default(RL_DEFAULTS.mask_truncated),
  target_kl: laxNumber(TARGET_KL).optional(),
  precision: z.enum(TRAINING_PRECISIONS).default(RL_DEFAULTS.precision),
  seed: seedSchema.optional(),
  lora: loraSchema.optional(),
})
export type RlOptions = z.output<typeof rlOptionsSchema>

export const sftOptionsSchema = z.object({
  batch_size: z.union([z.literal('auto'), laxInteger(BATCH_SIZE)]).default(SFT_DEFAULTS.batch_size),
  learning_rate: z
    .union([z.array(laxNumber(LEARNING_RATE)).min(1), laxNumber(LEARNING_RATE)])
    .default(SFT_DEFAULTS.learning_rate),
  learning_rate_schedule: z.enum(LEARNING_RATE_SCHEDULES).default(SFT_DEFAULTS.learning_rate_schedule),
  warmup_steps: laxInteger(WARMUP_STEPS).default(SFT_DEFAULTS.warmup_steps),
  min_learning_rate: laxNumber(LEARNING_RATE).default(SFT_DEFAULTS.min_learning_rate),
  epochs: laxInteger(EPOCHS).default(SFT_DEFAULTS.epochs),
  weight_decay: laxNumber(WEIGHT_DECAY).default(SFT_DEFAULTS.weight_decay),
  assistant_turns: z.enum(ASSISTANT_TURNS).default(SFT_DEFAULTS.assistant_turns),
  validation_interval: laxInteger(VALIDATION_INTERVAL).optional(),
  early_stopping_patience: laxInteger(EARLY_STOPPING_PATIENCE).optional(),
  early_stopping_min_delta: laxNumber(EARLY_STOPPING_MIN_DELTA).default(SFT_DEFAULTS.early_stopping_min_delta),
  keep_best: laxBoolean().optional(),
  precision: z.enum(TRAINING_PRECISIONS).default(SFT_DEFAULTS.precision),
  metric_logging: z
    .object({ enabled: laxBoolean().default(false), target_training_step: laxInteger({ min: 0 }).optional() })
    .optional(),
  seed: seedSchema.optional(),
  lora: loraSchema.optional(),
})
export type SftOptions = z.output<typeof sftOptionsSchema>

export const dpoOptionsSchema = z.object({
  batch_size: z.union([z.literal('auto'), laxInteger(BATCH_SIZE)]).default(DPO_DEFAULTS.batch_size),
  learning_rate: laxNumber(LEARNING_RATE).default(DPO_DEFAULTS.learning_rate),
  learning_rate_schedule: z.enum(LEARNING_RATE_SCHEDULES).default(DPO_DEFAULTS.learning_rate_schedule),
  warmup_steps: laxInteger(WARMUP_STEPS).default(DPO_DEFAULTS.warmup_steps),
  min_learning_rate: laxNumber(LEARNING_RATE).default(DPO_DEFAULTS.min_learning_rate),
  epochs: laxInteger(EPOCHS).default(DPO_DEFAULTS.epochs),
  weight_decay: laxNumber(WEIGHT_DECAY).default(DPO_DEFAULTS.weight_decay),
  beta: laxNumber(BETA).default(DPO_DEFAULTS.beta),
  label_smoothing: laxNumber(LABEL_SMOOTHING).default(DPO_DEFAULTS.label_smoothing),
  reference_free: laxBoolean().default(DPO_DEFAULTS.reference_free),
  reference_step: laxInteger({ min: 0 }).optional(),
  loss_type: z.literal('sigmoid').default('sigmoid'),
  precision: z.enum(TRAINING_PRECISIONS).default(DPO_DEFAULTS.precision),
  validation_interval: laxInteger(VALIDATION_INTERVAL).optional(),
  early_stopping_patience: laxInteger(EARLY_STOPPING_PATIENCE).optional(),
  early_stopping_min_delta: laxNumber(EARLY_STOPPING_MIN_DELTA).default(DPO_DEFAULTS.early_stopping_min_delta),
  keep_best: laxBoolean().optional(),
  seed: seedSchema.optional(),
  lora: loraSchema.optional(),
})
export type DpoOptions = z.output<typeof dpoOptionsSchema>

/**
 * Reads options.
 *
 * @param raw without nulls
 * @param root where the options stand in the request: `config` or `experimental_config`
 * @throws {RequestValidationError} `invalid_value` with one problem for every wrong option
 */
export function parseOptions<Schema extends z.ZodType>(
  schema: Schema,
  raw: JsonObject,
  root: string,
): z.output<Schema> {
  const result = schema.safeParse(raw)
  if (result.success) return result.data
  const problems = toValidationProblems(result.error.issues, root).map((problem) => ({
    ...problem,
    loc: ['body', ...problem.loc],
  }))
  throw new RequestValidationError(problems, { code: 'invalid_value', message: toSentences(problems, raw, 2) })
}
