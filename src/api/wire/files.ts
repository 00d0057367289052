/**
 * Uploaded training data: `POST /v1/files` as OpenAI's SDKs send it (multipart: `file`, `purpose`), or raw bytes with
 * `?filename=`. An extra field `artifact` (`entity/project/name:version`) registers the file under that artifact name,
 * so that `training_data_url: "wandb-artifact:///entity/project/name:version"` finds it.
 */
import { z } from '@hono/zod-openapi'

export const fileObjectSchema = z.object({
  /** `file-` and a UUID; use it as `training_data_url`. */
  id: z.string(),
  object: z.literal('file'),
  bytes: z.number().int(),
  /** Unix seconds, as OpenAI sends it. */
  created_at: z.number().int(),
  filename: z.string(),
  purpose: z.string(),
  status: z.literal('processed'),
  sha256: z.string(),
  artifact: z.string().nullable(),
})
export type FileObject = z.infer<typeof fileObjectSchema>
