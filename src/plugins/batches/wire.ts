/**
 * OpenAI's batches: `POST /v1/batches` names a file of requests, a line each: `{custom_id, method, url, body}`.
 *
 * Deviation: `output_expires_after` is refused by name, for files stay until they are deleted.
 */
import { z } from 'zod'
import { metadataSchema } from '#contract/wire/compatible/metadata.js'
import { laxInteger } from '#contract/wire/lax.js'
import { listSchema } from '#contract/wire/list.js'

/** Paths that lines may ask. */
const BATCH_ENDPOINTS = ['/v1/chat/completions', '/v1/completions', '/v1/responses'] as const

export const createBatchRequestSchema = z.object({
  input_file_id: z.string().min(1).max(256),
  endpoint: z.enum(BATCH_ENDPOINTS),
  completion_window: z.literal('24h'),
  metadata: metadataSchema.nullish(),
  /** Refused by name. */
  output_expires_after: z.object({ anchor: z.string().max(64), seconds: laxInteger() }).nullish(),
})
export type CreateBatchRequest = z.infer<typeof createBatchRequestSchema>

export const BATCH_STATUSES = [
  'validating',
  'failed',
  'in_progress',
  'finalizing',
  'completed',
  'expired',
  'cancelling',
  'cancelled',
] as const
export type BatchStatus = (typeof BATCH_STATUSES)[number]

const batchErrorSchema = z.object({
  code: z.string(),
  line: z.number().int().nullable(),
  message: z.string(),
  param: z.string().nullable(),
})
export type BatchError = z.infer<typeof batchErrorSchema>

const batchUsageSchema = z.object({
  input_tokens: z.number().int(),
  input_tokens_details: z.object({ cached_tokens: z.number().int() }),
  output_tokens: z.number().int(),
  output_tokens_details: z.object({ reasoning_tokens: z.number().int() }),
  total_tokens: z.number().int(),
})
export type BatchUsage = z.infer<typeof batchUsageSchema>

const seconds = z.number().int().nullable()

export const batchSchema = z.object({
  id: z.string(),
  object: z.literal('batch'),
  endpoint: z.string(),
  errors: z.object({ object: z.literal('list'), data: z.array(batchErrorSchema) }).nullable(),
  input_file_id: z.string(),
  completion_window: z.literal('24h'),
  status: z.enum(BATCH_STATUSES),
  output_file_id: z.string().nullable(),
  error_file_id: z.string().nullable(),
  created_at: z.number().int(),
  in_progress_at: seconds,
  expires_at: z.number().int(),
  finalizing_at: seconds,
  completed_at: seconds,
  failed_at: seconds,
  expired_at: seconds,
  cancelling_at: seconds,
  cancelled_at: seconds,
  request_counts: z.object({ total: z.number().int(), completed: z.number().int(), failed: z.number().int() }),
  usage: batchUsageSchema,
  metadata: metadataSchema.nullable(),
})
export type Batch = z.infer<typeof batchSchema>

export const batchListSchema = listSchema(batchSchema)
