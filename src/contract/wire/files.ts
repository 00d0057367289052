/**
 * Uploaded files as OpenAI's SDKs handle them: `POST /v1/files` (multipart: `file`, `purpose`, or raw bytes with `?filename=`),
 * list, get, content, delete. An extra field `artifact` (`entity/project/name:version`) registers the file under that artifact name,
 * so that `training_data_url: "wandb-artifact:///entity/project/name:version"` finds it.
 */
import { z } from 'zod'
import { laxInteger } from './lax.js'
import { listSchema } from './list.js'

/** What a file may be for. OpenAI's list; here only `fine-tune` is read by anything. */
export const FILE_PURPOSES = [
  'fine-tune',
  'fine-tune-results',
  'assistants',
  'batch',
  'batch_output',
  'evals',
  'user_data',
  'vision',
] as const

export const fileObjectSchema = z.object({
  /** `file-` and a UUID; use it as `training_data_url`. */
  id: z.string(),
  object: z.literal('file'),
  bytes: z.number().int(),
  /** Unix seconds, as OpenAI sends it. */
  created_at: z.number().int(),
  filename: z.string(),
  purpose: z.string(),
  /** `error`: its purpose is `fine-tune`, and no job could train on its rows. */
  status: z.enum(['processed', 'error']),
  /** What is wrong with its rows and how to mend it, as a job would say it. */
  status_details: z.string().nullable(),
  sha256: z.string(),
  artifact: z.string().nullable(),
})
export type FileObject = z.infer<typeof fileObjectSchema>

export const fileListSchema = listSchema(fileObjectSchema)

export const listFilesQuerySchema = z.object({
  after: z.string().max(200).optional(),
  /** OpenAI's clients ask for up to 10,000. */
  limit: laxInteger({ min: 1, max: 10_000 }).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  purpose: z.enum(FILE_PURPOSES).optional(),
})
export type ListFilesQuery = z.infer<typeof listFilesQuerySchema>

/** What an upload says of its file: fields of the form, or the query when the bytes are the whole body. */
export const uploadFieldsSchema = z.object({
  purpose: z.string().max(64).optional(),
  artifact: z.string().max(1024).optional(),
})
export const uploadQuerySchema = uploadFieldsSchema.extend({ filename: z.string().min(1).max(512).optional() })

export const deletedFileSchema = z.object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })
export type DeletedFile = z.infer<typeof deletedFileSchema>
