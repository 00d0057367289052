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

export const keyUsageQuerySchema = usageQuerySchema.pick({ from: true, to: true })
export type KeyUsageQuery = z.infer<typeof keyUsageQuerySchema>

export const keyUsageRowSchema = countersSchema.omit({ training_seconds: true }).extend({
  key_id: z.string(),
  /** Null for a key that was revoked. */
  name: z.string().nullable(),
  key_prefix: z.string().nullable(),
  /** The one project that the key may see. */
  project: z.string().nullable(),
})
export type KeyUsageRow = z.infer<typeof keyUsageRowSchema>

/** What keys asked for. A session of a browser counts for its key; training time belongs to no key. */
export const keyUsageResponseSchema = z.object({
  object: z.literal('usage.keys'),
  entity: z.string(),
  from: daySchema,
  to: daySchema,
  /** The key that asked most often first. */
  data: z.array(keyUsageRowSchema),
  /** True when there are more keys than one answer holds. */
  is_truncated: z.boolean(),
})
export type KeyUsageResponse = z.infer<typeof keyUsageResponseSchema>
