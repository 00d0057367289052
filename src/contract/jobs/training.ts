/**
 * Bounds, choices and defaults of a training job's options, each written once: the request's schemas
 * (`contract/wire/training-options.ts`), the trainer and the command line's flags all read them here.
 *
 * Plain data on purpose: a command shows a default without loading a schema. Names and defaults are those of OpenPipe ART.
 */

/** Largest number of the trainer's arithmetic: what is more would be infinity to it. */
const MAX_FLOAT32 = 3.4028234663852886e38

/** Inclusive bounds. */
export const LEARNING_RATE = { min: 0, max: 1 } as const
/** Clip ranges and caps of importance weights. */
export const RATIO_BOUND = { min: 0, max: MAX_FLOAT32 } as const
export const KL_PENALTY_COEF = { min: 0, max: MAX_FLOAT32 } as const
/** Nats per token an optimizer step may move the policy. */
export const TARGET_KL = { min: 1e-6, max: 100 } as const
/** Strength of the log-ratio taken from advantages. */
export const TAU = { min: 0, max: MAX_FLOAT32 } as const
export const ADVANTAGE_BALANCE = { min: -1, max: 1 } as const
/** Tokens. */
export const PACKED_SEQUENCE_LENGTH = { min: 2, max: 131_072 } as const
export const GRAD_ACCUMULATION_SEQUENCES = { min: 1, max: 4096 } as const
export const MULTIPLIER_POWER = { min: -8, max: 8 } as const
/** Examples of an SFT step. */
export const BATCH_SIZE = { min: 1, max: 65_536 } as const
/** Passes over the data of an SFT job. */
export const EPOCHS = { min: 1, max: 1000 } as const
/** Batches. */
export const WARMUP_STEPS = { min: 0, max: 1_000_000 } as const
export const WEIGHT_DECAY = { min: 0, max: 1 } as const
/** Gradient steps between two measurements on validation rows. */
export const VALIDATION_INTERVAL = { min: 1, max: 1_000_000 } as const
/** Measurements in a row without a better one, after which a job stops. */
export const EARLY_STOPPING_PATIENCE = { min: 1, max: 1000 } as const
/** Nats by which a validation loss must fall to count as better. */
export const EARLY_STOPPING_MIN_DELTA = { min: 0, max: MAX_FLOAT32 } as const
export const LORA_RANK = { min: 1, max: 256 } as const
export const LORA_ALPHA = { min: 1e-6, max: MAX_FLOAT32 } as const

export const POLICY_LOSSES = ['cispo', 'ppo'] as const
export const IMPORTANCE_SAMPLING_LEVELS = ['token', 'sequence', 'average', 'geometric_average'] as const
export const KL_PENALTY_SOURCES = ['current_learner', 'sample'] as const
export const LOSS_AGGREGATIONS = ['trajectory', 'token', 'constant'] as const
export const LEARNING_RATE_SCHEDULES = ['constant', 'linear', 'cosine'] as const
/** Arithmetic of the frozen layers' products. */
export const TRAINING_PRECISIONS = ['f32', 'int8'] as const
export const ASSISTANT_TURNS = ['all', 'last'] as const

/** `experimental_config` of an RL job; an option that is not here has a default that depends on others, or none. */
export const RL_DEFAULTS = {
  learning_rate: 5e-6,
  loss_fn: 'cispo',
  importance_sampling_level: 'token',
  scale_rewards: true,
  normalize_advantages: true,
  advantage_balance: 0,
  mask_prob_ratio: false,
  precalculate_logprobs: false,
  allow_training_without_logprobs: false,
  kl_penalty_coef: 0,
  kl_penalty_source: 'current_learner',
  logprob_calculation_chunk_size: 1024,
  grad_accumulation_sequences: 1,
  num_trajectories_learning_rate_multiplier_power: 0,
  loss_aggregation: 'trajectory',
  mask_truncated: false,
  precision: 'f32',
} as const

/** Clip range by loss; PPO's upper bound follows its lower one. */
export const CLIP_DEFAULTS = {
  cispo: { epsilon: 1, epsilonHigh: 4 },
  ppo: { epsilon: 0.2, epsilonHigh: null },
} as const

/** `config` of an SFT job. */
export const SFT_DEFAULTS = {
  batch_size: 'auto',
  learning_rate: 5e-5,
  learning_rate_schedule: 'constant',
  warmup_steps: 0,
  min_learning_rate: 0,
  epochs: 1,
  weight_decay: 0,
  assistant_turns: 'all',
  early_stopping_min_delta: 0,
  precision: 'f32',
} as const
/** Strength of a preference loss: at 0 every pair has the same loss, and nothing is learned. */
export const BETA = { min: 1e-4, max: 100 } as const
/** Share of pairs taken to be labelled the wrong way round. */
export const LABEL_SMOOTHING = { min: 0, max: 0.499 } as const
/** `config` of a preference job; beta and label smoothing are those of TRL, the rate is for an adapter. */
export const DPO_DEFAULTS = {
  batch_size: 'auto',
  learning_rate: 5e-6,
  learning_rate_schedule: 'constant',
  warmup_steps: 0,
  min_learning_rate: 0,
  epochs: 1,
  weight_decay: 0,
  beta: 0.1,
  label_smoothing: 0,
  reference_free: false,
  precision: 'f32',
  early_stopping_min_delta: 0,
} as const
/** Options of an SFT job that the published API lacks; they may stand in `config` or in `experimental_config`. */
export const SFT_EXTENSIONS = [
  'early_stopping_min_delta',
  'early_stopping_patience',
  'epochs',
  'keep_best',
  'learning_rate_schedule',
  'lora',
  'min_learning_rate',
  'precision',
  'seed',
  'validation_interval',
  'warmup_steps',
  'weight_decay',
]
/** Examples of a step for `batch_size: "auto"`. */
export const AUTO_BATCH_SIZE = 2

/** Shape of a model's first adapter. */
export const LORA_DEFAULTS = { rank: 8, alpha: 16 } as const

/** Names of all options, by kind of job; the schemas have exactly these. */
export const RL_OPTIONS: readonly string[] = [
  'learning_rate',
  'ppo',
  'loss_fn',
  'epsilon',
  'epsilon_high',
  'importance_sampling_level',
  'scale_rewards',
  'normalize_advantages',
  'advantage_balance',
  'max_negative_advantage_importance_sampling_weight',
  'mask_prob_ratio',
  'alt_k2_tau',
  'kimi_k2_tau',
  'precalculate_logprobs',
  'truncated_importance_sampling',
  'allow_training_without_logprobs',
  'kl_penalty_coef',
  'kl_penalty_source',
  'kl_penalty_reference_step',
  'kl_penalty_step_lag',
  'kl_ref_adapter_path',
  'packed_sequence_length',
  'tokens_per_step',
  'grad_accumulation_sequences',
  'num_trajectories_learning_rate_multiplier_power',
  'logprob_calculation_chunk_size',
  'scale_learning_rate_by_reward_std_dev',
  'plot_tensors',
  'loss_aggregation',
  'mask_truncated',
  'target_kl',
  'precision',
  'seed',
  'lora',
]
export const SFT_OPTIONS: readonly string[] = [
  'batch_size',
  'learning_rate',
  'learning_rate_schedule',
  'warmup_steps',
  'min_learning_rate',
  'epochs',
  'weight_decay',
  'assistant_turns',
  'validation_interval',
  'early_stopping_patience',
  'early_stopping_min_delta',
  'keep_best',
  'precision',
  'metric_logging',
  'seed',
  'lora',
]
export const DPO_OPTIONS: readonly string[] = [
  'batch_size',
  'learning_rate',
  'learning_rate_schedule',
  'warmup_steps',
  'min_learning_rate',
  'epochs',
  'weight_decay',
  'beta',
  'label_smoothing',
  'reference_free',
  'reference_step',
  'loss_type',
  'precision',
  'validation_interval',
  'early_stopping_patience',
  'early_stopping_min_delta',
  'keep_best',
  'seed',
  'lora',
]
