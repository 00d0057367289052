/**
 * OpenAI's fine-tuning API over this engine: `/v1/fine_tuning/jobs` in the words of OpenAI's reference.
 *
 * A base model as `model` makes a new model; the name of a trained one trains that one on. Integrations are refused by name.
 */
import { z } from 'zod'
import { DPO } from '#contract/jobs/dpo.js'
import { metadataSchema } from '#contract/wire/compatible/metadata.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { laxInteger, laxNumber } from '#contract/wire/lax.js'
import { listSchema } from '#contract/wire/list.js'
import { kept, word } from '#contract/wire/maxima.js'

const auto = z.literal('auto')

/** `auto` leaves the choice to the service; the job says what was chosen. */
export const hyperparametersSchema = z.object({
  batch_size: z.union([auto, laxInteger(DPO.options.batch_size.bounds)]).nullish(),
  /** Times the rate that suits the size of the model. */
  learning_rate_multiplier: z.union([auto, laxNumber({ min: 1e-6, max: 1e4 })]).nullish(),
  n_epochs: z.union([auto, laxInteger(DPO.options.epochs.bounds)]).nullish(),
})
export type Hyperparameters = z.infer<typeof hyperparametersSchema>

const dpoHyperparametersSchema = hyperparametersSchema.extend({
  /** How strongly the answers that are preferred are told from the others. */
  beta: z.union([auto, laxNumber(DPO.options.beta.bounds)]).nullish(),
})
export type DpoHyperparameters = z.infer<typeof dpoHyperparametersSchema>

const REASONING_EFFORTS = ['default', 'low', 'medium', 'high'] as const

/** Bounds are those of OpenAI's service. */
const reinforcementHyperparametersSchema = z.object({
  /** Prompts of a step. */
  batch_size: z.union([auto, laxInteger({ min: 1, max: 256 })]).nullish(),
  /** Times eight answers to a prompt. */
  compute_multiplier: z.union([auto, laxNumber({ min: 1e-5, max: 10 })]).nullish(),
  /** Steps between evaluations. */
  eval_interval: z.union([auto, laxInteger({ min: 1, max: 1_000_000 })]).nullish(),
  /** Answers to a row that is held out. */
  eval_samples: z.union([auto, laxInteger({ min: 1, max: 64 })]).nullish(),
  /** Times the rate that suits the size of the model. */
  learning_rate_multiplier: z.union([auto, laxNumber({ min: 1e-6, max: 1e4 })]).nullish(),
  n_epochs: z.union([auto, laxInteger({ min: 1, max: 50 })]).nullish(),
  reasoning_effort: z.enum(REASONING_EFFORTS).nullish(),
})
export type ReinforcementHyperparameters = z.infer<typeof reinforcementHyperparametersSchema>

const limit = laxInteger({ min: 1 }).nullish()

const reinforcementSchema = z.object({
  /** Its fields are read by `plugins/graders/grading/spec.ts`. */
  grader: kept(z.record(z.string(), z.json())),
  hyperparameters: reinforcementHyperparametersSchema.nullish(),
  /** As of chat completions: the form of all answers. */
  response_format: kept(z.looseObject({ type: word() })).nullish(),
  /** Ours: where one is reached the job pauses. */
  limits: z.object({ max_grader_tokens: limit, max_seconds: limit, max_endpoint_calls: limit }).nullish(),
  /** Azure's: `{name, server_url, headers}`, who answers calls of a function; read by `loops/tools.ts`. */
  tools: kept(z.array(z.json())).nullish(),
  /** Azure's: turns of the model in an episode with tools. */
  max_episode_steps: laxInteger({ min: 1, max: 100 }).nullish(),
})
export type ReinforcementRequest = z.infer<typeof reinforcementSchema>

/** How a job learns, in OpenAI's words. */
export const FINE_TUNING_METHODS = ['supervised', 'dpo', 'reinforcement'] as const
type FineTuningMethod = (typeof FINE_TUNING_METHODS)[number]
/** Those that learn from answers that a file has. */
export type RowMethod = Exclude<FineTuningMethod, 'reinforcement'>
/** What each of them is here. */
export const JOB_KIND_OF_METHOD: Readonly<Record<FineTuningMethod, JobKind>> = {
  supervised: 'sft',
  dpo: 'dpo',
  reinforcement: 'rl',
}

export const createFineTuningJobRequestSchema = z.object({
  model: z.string().min(1).max(1024),
  training_file: z.string().min(1).max(256),
  validation_file: z.string().min(1).max(256).nullish(),
  method: z
    .object({
      type: z.string().max(64),
      supervised: z.object({ hyperparameters: hyperparametersSchema.nullish() }).nullish(),
      dpo: z.object({ hyperparameters: dpoHyperparametersSchema.nullish() }).nullish(),
      reinforcement: reinforcementSchema.nullish(),
    })
    .nullish(),
  /** OpenAI's older place of the same numbers. */
  hyperparameters: hyperparametersSchema.nullish(),
  /** Becomes a part of the model's name. */
  suffix: z.string().min(1).max(64).nullish(),
  seed: laxInteger({ min: 0 }).nullish(),
  metadata: metadataSchema.nullish(),
  integrations: kept(z.array(z.json())).nullish(),
})
export type CreateFineTuningJobRequest = z.infer<typeof createFineTuningJobRequestSchema>

export const FINE_TUNING_STATUSES = ['queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled'] as const

const chosenHyperparametersSchema = z.object({
  batch_size: z.union([auto, z.number()]),
  learning_rate_multiplier: z.union([auto, z.number()]),
  n_epochs: z.union([auto, z.number()]),
})

const chosenDpoHyperparametersSchema = chosenHyperparametersSchema.extend({ beta: z.number() })

export const fineTuningJobSchema = z.object({
  /** `ftjob-` and the id of the training job. */
  id: z.string(),
  object: z.literal('fine_tuning.job'),
  created_at: z.number().int(),
  finished_at: z.number().int().nullable(),
  estimated_finish: z.number().int().nullable(),
  error: z.object({ code: z.string(), message: z.string(), param: z.string().nullable() }).nullable(),
  /** What chat takes as `model` once the job has succeeded. */
  fine_tuned_model: z.string().nullable(),
  /** Of supervised jobs only, as in OpenAI's reference. */
  hyperparameters: chosenHyperparametersSchema.optional(),
  method: z.discriminatedUnion('type', [
    z.object({
      type: z.literal('supervised'),
      supervised: z.object({ hyperparameters: chosenHyperparametersSchema }),
    }),
    z.object({ type: z.literal('dpo'), dpo: z.object({ hyperparameters: chosenDpoHyperparametersSchema }) }),
    z.object({
      type: z.literal('reinforcement'),
      reinforcement: z.object({
        grader: z.record(z.string(), z.json()),
        hyperparameters: chosenHyperparametersSchema.extend({
          compute_multiplier: z.number(),
          eval_interval: z.number(),
          eval_samples: z.number(),
          reasoning_effort: z.enum(REASONING_EFFORTS),
        }),
        response_format: z.record(z.string(), z.json()).nullable(),
        limits: z.record(z.string(), z.json()).nullable(),
        /** Without the values of their headers, which are keys. */
        tools: z.array(z.json()).optional(),
        max_episode_steps: z.number().int().optional(),
      }),
    }),
  ]),
  model: z.string(),
  organization_id: z.string(),
  result_files: z.array(z.string()),
  seed: z.number().int(),
  status: z.enum(FINE_TUNING_STATUSES),
  trained_tokens: z.number().int().nullable(),
  training_file: z.string(),
  validation_file: z.string().nullable(),
  integrations: z.array(z.json()),
  metadata: metadataSchema.nullable(),
  user_provided_suffix: z.string().nullable(),
})
export type FineTuningJob = z.infer<typeof fineTuningJobSchema>

export const fineTuningJobListSchema = listSchema(fineTuningJobSchema)

export const fineTuningEventSchema = z.object({
  id: z.string(),
  object: z.literal('fine_tuning.job.event'),
  created_at: z.number().int(),
  level: z.enum(['info', 'warn', 'error']),
  message: z.string(),
  type: z.enum(['message', 'metrics']),
  /** Of type `metrics`: `step`, `total_steps`, `train_loss` and everything else the step reports. */
  data: z.record(z.string(), z.json()),
})
export type FineTuningEvent = z.infer<typeof fineTuningEventSchema>

export const fineTuningEventListSchema = listSchema(fineTuningEventSchema)

export const fineTuningCheckpointSchema = z.object({
  id: z.string(),
  object: z.literal('fine_tuning.job.checkpoint'),
  created_at: z.number().int(),
  fine_tuned_model_checkpoint: z.string(),
  fine_tuning_job_id: z.string(),
  metrics: z.record(z.string(), z.number()),
  step_number: z.number().int(),
})
export type FineTuningCheckpoint = z.infer<typeof fineTuningCheckpointSchema>

export const fineTuningCheckpointListSchema = listSchema(fineTuningCheckpointSchema)

/** `metadata[name]=value` is read beside it. */
export const fineTuningPageQuerySchema = z.looseObject({
  after: z.string().max(200).optional(),
  limit: laxInteger({ min: 1, max: 100 }).optional(),
})
export type FineTuningPageQuery = z.infer<typeof fineTuningPageQuerySchema>
