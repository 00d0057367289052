/**
 * Training jobs and their events, in the form the hosted service publishes and openpipe-art polls.
 *
 * Additions of ours: the job record beyond `id`, `GET /v1/preview/training-jobs`, `POST …/{id}/cancel`, and server-sent
 * events on `GET …/{id}/events` with `Accept: text/event-stream` (`id:` is the event id, `data:` one event; resumes from
 * `Last-Event-ID` or `after`; ends after the terminal event).
 */
import { z } from 'zod'
import { EVENT_TYPES, JOB_KINDS, JOB_STATUSES } from './job-words.js'
import { laxBoolean } from './lax.js'
import { listSchema, pageQuerySchema } from './list.js'
import { byBody, kept, MAX_GROUPS } from './maxima.js'
import { jobReportSchema } from './training/job-report.js'
import { workerFactsSchema } from './training/worker-facts.js'

/** Longest address of training data: a `data:` address holds the rows themselves. */
const MAX_DATA_URL = 8 * 1024 * 1024

/** `config` and `experimental_config` stay open here: `training-options.ts` knows their fields. */
export const createRlJobRequestSchema = z.object({
  model_id: z.guid(),
  trajectory_groups: z.array(byBody(z.unknown())).max(MAX_GROUPS),
  experimental_config: kept(z.record(z.string(), z.json())).nullish(),
  /** Refuse options that would have no effect instead of reporting them as `warnings`. */
  strict: laxBoolean().nullish(),
})
export type CreateRlJobRequest = z.infer<typeof createRlJobRequestSchema>

export const createSftJobRequestSchema = z.object({
  model_id: z.guid(),
  /**
   * `file-…` from `POST /v1/files`, `file:` below the configured root, `wandb-artifact:///entity/project/name:version`, an
   * `https:` address, or the rows themselves as a `data:` address. Rows may be compressed with gzip.
   */
  training_data_url: z.string().min(1).max(MAX_DATA_URL),
  /** Rows of the same form that are measured on and not trained. */
  validation_data_url: z.string().min(1).max(MAX_DATA_URL).nullish(),
  config: kept(z.record(z.string(), z.json())).nullish(),
  experimental_config: kept(z.record(z.string(), z.json())).nullish(),
  /** As for RL jobs. */
  strict: laxBoolean().nullish(),
})
export type CreateSftJobRequest = z.infer<typeof createSftJobRequestSchema>

/** A preference job: rows of `prompt`, `chosen` and `rejected`. */
export const createDpoJobRequestSchema = createSftJobRequestSchema.omit({ experimental_config: true })
export type CreateDpoJobRequest = z.infer<typeof createDpoJobRequestSchema>

export const trainingJobSchema = z.object({
  id: z.string(),
  model_id: z.string(),
  kind: z.enum(JOB_KINDS),
  status: z.enum(JOB_STATUSES),
  /** Times the job was claimed by a worker. */
  attempt: z.number().int(),
  is_cancel_requested: z.boolean(),
  /** It ends after the gradient step it is in, with a checkpoint. */
  is_stop_requested: z.boolean().default(false),
  /** As submitted, nulls removed. */
  config: z.record(z.string(), z.json()),
  /** Every option the job runs with, defaults filled in; null is not set. Null as a whole for jobs of versions before it. */
  resolved_config: z.record(z.string(), z.json()).nullable().default(null),
  /** Options of `config` without effect, and what looks wrong about data or course of the job, one sentence each. */
  warnings: z.array(z.string()).default([]),
  created_at: z.string(),
  /** Of a job that waits: 1 starts next. Jobs of different projects and models take turns. */
  queue_position: z.number().int().nullable().default(null),
  /** When it will start, judging by how long jobs took; null while nothing tells, and once it has started. */
  expected_start: z.string().nullable().default(null),
  training_start: z.string().nullable(),
  training_end: z.string().nullable(),
  /** Which worker runs it, or ran it last, and what its numbers depend on; null until one does, and for jobs of versions before it. */
  worker: workerFactsSchema.nullable().default(null),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  /** Gradient steps done and to do; null until `training_started`. */
  num_gradient_steps: z.number().int(),
  num_sequences: z.number().int().nullable(),
  /** Step of the checkpoint the job made. */
  step: z.number().int().nullable(),
  /** Until when what it trained on can be read; null: it is not kept, or the job has not ended. */
  data_kept_until: z.string().nullable().default(null),
  /** Trajectory groups and trajectories that can be read, of jobs by reinforcement learning; null where none can. */
  group_count: z.number().int().nullable().default(null),
  trajectory_count: z.number().int().nullable().default(null),
  /** What the job tells about itself; null until it has started. */
  report: jobReportSchema.nullable().default(null),
  /** When a running job is expected to end, from the pace of its gradient steps; null before the first. */
  predicted_end: z.string().nullable().default(null),
})
export type TrainingJob = z.infer<typeof trainingJobSchema>

export const trainingJobListSchema = listSchema(trainingJobSchema)

export const listTrainingJobsQuerySchema = pageQuerySchema.extend({
  entity: z.string().max(256).optional(),
  project: z.string().max(256).optional(),
  model_id: z.string().max(256).optional(),
  status: z.enum(JOB_STATUSES).optional(),
  kind: z.enum(JOB_KINDS).optional(),
})
export type ListTrainingJobsQuery = z.infer<typeof listTrainingJobsQuerySchema>

export const trainingEventSchema = z.object({
  id: z.string(),
  type: z.enum(EVENT_TYPES),
  /** `gradient_step`: numbers only. `training_started`: `num_sequences`. `training_failed`: `error_message`. */
  data: z.record(z.string(), z.json()),
  created_at: z.string(),
})
export type TrainingEvent = z.infer<typeof trainingEventSchema>

export const trainingEventListSchema = listSchema(trainingEventSchema)
