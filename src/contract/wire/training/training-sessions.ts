/**
 * Training sessions as they are listed: loops of clients, and what each has done.
 */
import { z } from 'zod'
import { listSchema, pageQuerySchema } from '../list.js'

/** Running: it holds a worker. Waiting: for one. Resting: the next request takes one. Stopped: it cannot go on. */
export const TRAINING_SESSION_STATUSES = ['running', 'waiting', 'resting', 'stopped'] as const

export const trainingSessionSchema = z.object({
  object: z.literal('training_session'),
  /** The `model_id` of its client. */
  id: z.string(),
  entity: z.string(),
  project: z.string(),
  base_model: z.string(),
  /** The model that its checkpoints go to; null before the first. */
  model_id: z.string().nullable(),
  status: z.enum(TRAINING_SESSION_STATUSES),
  /** Why it cannot go on; null while it can. */
  error: z.string().nullable(),
  lora_rank: z.number().int(),
  /** Requests that were carried out, and that wait. */
  requests: z.number().int(),
  waiting_requests: z.number().int(),
  /** Updates made. */
  optimizer_steps: z.number().int(),
  /** ISO 8601, UTC, as all times here. */
  created_at: z.string(),
  last_request_at: z.string(),
})
export type TrainingSession = z.infer<typeof trainingSessionSchema>

export const trainingSessionListSchema = listSchema(trainingSessionSchema)

export const listTrainingSessionsQuerySchema = pageQuerySchema.extend({
  entity: z.string().max(256).optional(),
  project: z.string().max(256).optional(),
})
export type ListTrainingSessionsQuery = z.infer<typeof listTrainingSessionsQuerySchema>
