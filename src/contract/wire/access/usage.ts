/**
 * `GET /v1/usage`: what projects used, by day (UTC), project and model.
 */
import { z } from 'zod'

const daySchema = z.iso.date()

export const usageQuerySchema = z.object({
  /** First day, `YYYY-MM-DD`. Default 29 days before `to`. */
  from: daySchema.optional(),
  /** Last day, included. Default today. */
  to: daySchema.optional(),
  project: z.string().min(1).max(256).optional(),
  model: z.string().min(1).max(1024).optional(),
})
export type UsageQuery = z.infer<typeof usageQuerySchema>

const countersSchema = z.object({
  /** Answers asked for: chat, completions and the like. */
  requests: z.number().int(),
  prompt_tokens: z.number().int(),
  /** Of the prompt tokens, those that were computed before. */
  cached_tokens: z.number().int(),
  completion_tokens: z.number().int(),
  /** Time in which a worker held a job. */
  training_seconds: z.number(),
})

export const usageRowSchema = countersSchema.extend({
  day: daySchema,
  project: z.string(),
  /** A base model's name, or `entity/project/name`. */
  model: z.string(),
})
export type UsageRow = z.infer<typeof usageRowSchema>

export const usageResponseSchema = z.object({
  object: z.literal('usage'),
  entity: z.string(),
  from: daySchema,
  to: daySchema,
  /** By day, project, model. */
  data: z.array(usageRowSchema),
  total: countersSchema,
  /** True when there are more rows than one answer holds: ask for fewer days. */
  is_truncated: z.boolean(),
})
export type UsageResponse = z.infer<typeof usageResponseSchema>
