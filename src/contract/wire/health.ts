/**
 * Health, system check and who-am-I. The sub-keys are ours, the published API shows none.
 */
import { z } from 'zod'
import { KEY_SCOPES } from './access/key-words.js'

export const healthResponseSchema = z.object({ status: z.literal('ok'), version: z.string() })
export type HealthResponse = z.infer<typeof healthResponseSchema>

/** 503 with an error otherwise. */
export const readyResponseSchema = z.object({ status: z.literal('ready'), version: z.string() })

export const checkResultSchema = z.object({
  success: z.boolean(),
  duration_ms: z.number(),
  errors: z.array(z.string()),
})
export type CheckResult = z.infer<typeof checkResultSchema>

/** One part of the service, tried for real. */
export const systemCheckSchema = checkResultSchema.extend({
  /** `database`, `blob_store`, `cpu_queue`, `gpu_queue`, `base_models` or `worker`. */
  name: z.string(),
  /** It took far longer than it should. */
  is_slow: z.boolean(),
  /** What was done, when it succeeded. */
  message: z.string(),
  /** What works and yet should be known, as sentences. */
  warnings: z.array(z.string()).optional(),
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

/** How far a look through the blobs is. */
export const verifyProgressSchema = z.object({
  object: z.literal('storage_progress'),
  blobs: z.number().int(),
  bytes: z.number().int(),
})
export type VerifyProgress = z.infer<typeof verifyProgressSchema>

/** What a look through all blobs found. */
export const storageReportSchema = z.object({
  object: z.literal('storage_report'),
  /** Nothing is missing or damaged, and the database belongs to the data. */
  ok: z.boolean(),
  database: z.object({
    /** `ours` and `new` are well. */
    state: z.enum(['ours', 'new', 'missing', 'empty', 'older', 'other']),
    message: z.string(),
  }),
  blobs: z.number().int(),
  bytes: z.number().int(),
  /** Named by rows of these tables, and not there. */
  missing: z.array(z.object({ sha256: z.string(), named_by: z.array(z.string()) })),
  /** Of another digest than their name, which is null where the file cannot be read (`problem`). */
  damaged: z.array(
    z.object({
      sha256: z.string(),
      size_bytes: z.number().int(),
      actual_sha256: z.string().nullable(),
      problem: z.string().nullable(),
      named_by: z.array(z.string()),
    }),
  ),
  /** Named by no row. */
  orphans: z.array(
    z.object({
      sha256: z.string(),
      size_bytes: z.number().int(),
      /** Unix seconds. */
      modified_at: z.number().int(),
      /** This database never had it, so it is never swept. */
      is_kept: z.boolean(),
    }),
  ),
})
export type StorageReport = z.infer<typeof storageReportSchema>

export const whoamiResponseSchema = z.object({
  entity: z.string(),
  /** The one project the key may see; null: all of the entity. */
  project: z.string().nullish(),
  /** What the key may do. */
  scope: z.enum(KEY_SCOPES).optional(),
  key_id: z.string(),
  /** First characters of the key, enough to tell keys apart. */
  key_prefix: z.string(),
  /** The browser's session that asks; null where the key itself does. */
  session_id: z.string().nullish(),
  version: z.string(),
})
export type WhoamiResponse = z.infer<typeof whoamiResponseSchema>
