/**
 * OpenAI's uploads: `POST /v1/uploads` says what file is to come, `…/parts` takes its bytes in any order, `…/complete` names
 * their order.
 *
 * Deviation: `expires_after` is refused by name, as for files.
 */
import { z } from 'zod'
import { fileObjectSchema } from '#contract/wire/files.js'
import { laxInteger } from '#contract/wire/lax.js'

/** Largest file that parts are joined to, and largest part, bytes. Source: OpenAI API reference, uploads. */
const MAX_UPLOAD = 8 * 1024 ** 3
export const MAX_PART = 64 * 1024 ** 2
/** Parts of one upload. */
export const MAX_PARTS = 10_000

export const createUploadRequestSchema = z.object({
  bytes: laxInteger({ min: 1, max: MAX_UPLOAD }),
  filename: z.string().min(1).max(512),
  /** Nothing here goes by it. */
  mime_type: z.string().max(256).nullish(),
  purpose: z.string().max(64),
  /** Refused by name. */
  expires_after: z.object({ anchor: z.string().max(64), seconds: laxInteger() }).nullish(),
})
export type CreateUploadRequest = z.infer<typeof createUploadRequestSchema>

export const completeUploadRequestSchema = z.object({
  part_ids: z.array(z.string().min(1).max(64)).min(1).max(MAX_PARTS),
  /** Of the whole file, hex. */
  md5: z.string().max(64).nullish(),
})
export type CompleteUploadRequest = z.infer<typeof completeUploadRequestSchema>

export const UPLOAD_STATUSES = ['pending', 'completed', 'cancelled', 'expired'] as const
export type UploadStatus = (typeof UPLOAD_STATUSES)[number]

export const uploadSchema = z.object({
  id: z.string(),
  object: z.literal('upload'),
  bytes: z.number().int(),
  created_at: z.number().int(),
  filename: z.string(),
  purpose: z.string(),
  status: z.enum(UPLOAD_STATUSES),
  expires_at: z.number().int(),
  /** Once it is complete. */
  file: fileObjectSchema.nullable(),
})
export type Upload = z.infer<typeof uploadSchema>

export const uploadPartSchema = z.object({
  id: z.string(),
  object: z.literal('upload.part'),
  created_at: z.number().int(),
  upload_id: z.string(),
})
export type UploadPart = z.infer<typeof uploadPartSchema>
