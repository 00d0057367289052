/**
 * Health, system check and who-am-I. The sub-keys are ours, the published API shows none.
 */
import { z } from '@hono/zod-openapi'
import { KEY_SCOPES } from './access/key-words.js'

export const healthResponseSchema = z.object({ status: z.literal('ok'), version: z.string() })
export type HealthResponse = z.infer<typeof healthResponseSchema>

export const checkResultSchema = z.object({
  success: z.boolean(),
  duration_ms: z.number(),
  errors: z.array(z.string()),
})
export type CheckResult = z.infer<typeof checkResultSchema>

/** One part of the service, tried for real. */
export const systemCheckSchema = checkResultSchema.extend({
  /** `database`, `blob_store`, `cpu_queue`, `gpu_queue` or `worker`. */
  name: z.string(),
  /** It took far longer than it should. */
  is_slow: z.boolean(),
  /** What was done, when it succeeded. */
  message: z.string(),
})
export type SystemCheck = z.infer<typeof systemCheckSchema>

/** 200 when every check succeeds, else 503 with the same body. */
export const systemCheckResponseSchema = z.object({
  api: z.literal(true),
  /** A row was written and read back. */
  database: z.boolean(),
  /** The job queue answers and no runnable job is stuck. */
  cpu_queue: checkResultSchema,
  /** The engine host of the default base model answers. Named as upstream names it, whatever the device. */
  gpu_queue: checkResultSchema,
  /** Every check with its time, ours. */
  checks: z.array(systemCheckSchema).optional(),
  /** The slowest part that is slow, by name. */
  slow: z.string().nullish(),
})
export type SystemCheckResponse = z.infer<typeof systemCheckResponseSchema>

export const whoamiResponseSchema = z.object({
  entity: z.string(),
  /** The one project the key may see; null: all of the entity. */
  project: z.string().nullish(),
  /** What the key may do. */
  scope: z.enum(KEY_SCOPES).optional(),
  key_id: z.string(),
  /** First characters of the key, enough to tell keys apart. */
  key_prefix: z.string(),
  version: z.string(),
})
export type WhoamiResponse = z.infer<typeof whoamiResponseSchema>
