/**
 * Options that several kinds of jobs have: of every job, and of jobs that go through rows of data in epochs.
 */
import { RESERVED_KWARGS } from '#contract/wire/inference/template-kwargs.js'
import { LORA_OPTIONS, type LoraOptions } from './lora-options.js'
import { defineOptions, MAX_FLOAT32, type OptionRow, type OptionValues } from './option.js'

/** A formula as data (`base/formula`), which command line and library make of a function (`losses.ts`). */
export const FORMULA = {
  type: 'fields',
  default: null,
  reserved: [],
  summary: 'what custom computes, as `--loss ./mine.mjs` and `--advantage ./mine.mjs` write it',
} as const satisfies OptionRow

export const LEARNING_RATE = { min: 0, max: 1 } as const
/** Below so many parameters a base model counts as tiny. */
export const TINY = 20_000_000
/** Up to here rates were measured. */
export const MEASURED = 300_000_000

/** Of every kind of job. */
export const COMMON_OPTIONS = defineOptions({
  precision: {
    type: 'choice',
    default: 'f32',
    choices: ['f32', 'int8', 'bf16'],
    isExtension: true,
    summary: "arithmetic of the frozen layers' products; bf16 needs a server with --trainer torch",
  },
  seed: {
    type: 'integer',
    default: null,
    bounds: {},
    isExtension: true,
    summary: "seeds a new adapter and the order of rows; without it the job's id does",
  },
  lora: {
    type: 'object',
    default: null,
    isExtension: true,
    summary: "shape of a model's first adapter; later jobs keep it",
    rows: LORA_OPTIONS,
  },
  lora_dropout: {
    type: 'number',
    default: 0,
    bounds: { min: 0, max: 0.9 },
    isExtension: true,
    flag: {},
    summary: "share of the adapter's inputs that are left out while the job trains",
  },
})

export type CommonOptions = Omit<OptionValues<typeof COMMON_OPTIONS>, 'lora'> & { readonly lora: LoraOptions | null }

/**
 * AdamW and clipping, by the names of transformers' `TrainingArguments`. Betas and epsilon are what ART trains with.
 *
 * @param defaults which differ between kinds of jobs
 */
export function optimizerOptions<const Decay extends number, const Norm extends number>({
  weightDecay,
  maxGradNorm,
}: {
  readonly weightDecay: Decay
  readonly maxGradNorm: Norm
}) {
  // at 1 a moment never moves, and its correction divides by 0
  const decay = { min: 0, max: 0.999999 } as const
  return defineOptions({
    weight_decay: {
      type: 'number',
      default: weightDecay,
      bounds: { min: 0, max: 1 },
      isExtension: true,
      flag: {},
      summary: 'decoupled decay of AdamW',
    },
    max_grad_norm: {
      type: 'number',
      default: maxGradNorm,
      bounds: { min: 0, max: MAX_FLOAT32 },
      isExtension: true,
      flag: {},
      summary: 'largest norm of a gradient, longer ones are shortened; 0 for none',
    },
    adam_beta1: {
      type: 'number',
      default: 0.9,
      bounds: decay,
      isExtension: true,
      flag: {},
      summary: 'decay of the mean of gradients',
    },
    adam_beta2: {
      type: 'number',
      default: 0.99,
      bounds: decay,
      isExtension: true,
      flag: {},
      summary: 'decay of the mean of squared gradients',
    },
    adam_epsilon: {
      type: 'number',
      default: 1e-8,
      // below, nothing is divided by where a gradient is 0
      bounds: { min: 1e-30, max: 1 },
      isExtension: true,
      flag: {},
      summary: "added to the optimizer's denominator",
    },
    loraplus_lr_ratio: {
      type: 'number',
      default: 1,
      bounds: { min: 1e-3, max: 1000 },
      isExtension: true,
      flag: {},
      summary: "the adapter's B learns at this many times the learning rate (LoRA+)",
    },
  })
}
export type OptimizerOptions = OptionValues<ReturnType<typeof optimizerOptions<number, number>>>

/** The course of the learning rate over a job. @param steps what it is counted in: a job's epochs, or its optimizer steps */
export function scheduleOptions<const Steps extends string>(steps: Steps) {
  return defineOptions({
    learning_rate_schedule: {
      type: 'choice',
      default: 'constant',
      choices: ['constant', 'linear', 'cosine'],
      isExtension: true,
      flag: { spelling: '--schedule <constant|linear|cosine>' },
      summary: `course of the learning rate over all ${steps} of the job`,
    },
    warmup_steps: {
      type: 'integer',
      default: 0,
      bounds: { min: 0, max: 1_000_000 },
      isExtension: true,
      flag: {},
      summary: 'batches over which the rate rises',
    },
    warmup_ratio: {
      type: 'number',
      default: 0,
      bounds: { min: 0, max: 1 },
      isExtension: true,
      flag: {},
      summary: 'the same as a share of all batches',
    },
    min_learning_rate: {
      type: 'number',
      default: 0,
      bounds: LEARNING_RATE,
      isExtension: true,
      needs: {
        any: ['learning_rate_schedule', 'warmup_steps', 'warmup_ratio'],
        said: 'learning_rate_schedule linear or cosine, warmup_steps or warmup_ratio',
      },
      flag: {},
      summary: 'rate the schedule starts from and ends at',
    },
  })
}
export type ScheduleOptions = OptionValues<ReturnType<typeof scheduleOptions<string>>>

/** Of jobs on rows. @param rows what a row is called, in the plural */
export function epochOptions<const Rows extends string>(rows: Rows) {
  return defineOptions({
    batch_size: {
      type: 'integer',
      default: 'auto',
      bounds: { min: 1, max: 65_536 },
      word: { text: 'auto', value: 2 },
      flag: { spelling: '--batch-size <n|auto>', isCommon: true },
      summary: `${rows} per gradient step`,
    },
    epochs: {
      type: 'integer',
      default: 1,
      bounds: { min: 1, max: 1000 },
      isExtension: true,
      flag: { isCommon: true },
      summary: 'passes over the data',
    },
    shuffle: {
      type: 'boolean',
      default: false,
      advised: true,
      isExtension: true,
      flag: { isCommon: true },
      summary: 'train rows in random order, by the seed, instead of that of the file',
    },
    validation_split: {
      type: 'number',
      default: 0,
      bounds: { min: 0, max: 0.9 },
      isExtension: true,
      flag: { spelling: '--split <share>', whenAbsent: null, isCommon: true },
      summary: `share of the ${rows} that is measured on and not trained, chosen by the seed: 0.1 is a tenth`,
    },
    ...scheduleOptions('epochs'),
    validation_interval: {
      type: 'integer',
      default: null,
      bounds: { min: 1, max: 1_000_000 },
      isExtension: true,
      isMeasuring: true,
      flag: { whenAbsent: 'one epoch' },
      summary: 'gradient steps between measurements',
    },
    early_stopping_patience: {
      type: 'integer',
      default: null,
      bounds: { min: 1, max: 1000 },
      isExtension: true,
      isMeasuring: true,
      flag: {},
      summary: 'stop after n measurements without a better one, keep the best state',
    },
    early_stopping_min_delta: {
      type: 'number',
      default: 0,
      bounds: { min: 0, max: MAX_FLOAT32 },
      isExtension: true,
      needs: { any: ['early_stopping_patience'], said: 'early_stopping_patience' },
      summary: 'nats by which a measurement must be lower to be better',
    },
    ...optimizerOptions({ weightDecay: 0, maxGradNorm: 1 }),
    keep_best: {
      type: 'boolean',
      default: null,
      isExtension: true,
      isMeasuring: true,
      flag: { whenAbsent: 'with early stopping' },
      summary: 'keep the state with the lowest validation loss',
    },
    chat_template_kwargs: {
      type: 'fields',
      default: null,
      reserved: RESERVED_KWARGS,
      isExtension: true,
      flag: { spelling: '--template-kwargs <json>', whenAbsent: 'those of the checkpoint it begins from' },
      summary: 'chat template variables of the chats that are learned, and of chats with the new checkpoint',
    },
  })
}
export type EpochOptions = OptionValues<ReturnType<typeof epochOptions>>
