/**
 * Checkpoints of a model: an adapter at a step, with the metrics known for it.
 *
 * `chat_template_kwargs`, `created_at`, `size_bytes` and the file routes are additions of ours:
 *
 *     GET /v1/preview/models/{id}/checkpoints/{step}/files          → CheckpointFiles
 *     GET /v1/preview/models/{id}/checkpoints/{step}/files/{name}   → bytes, header x-content-sha256
 *
 * Both take `format` and `precision` and then name other files: those of an export, made while they are sent. Their digest is
 * not known beforehand. Step 0 is the base model.
 */
import { z } from 'zod'
import { EXPORT_FORMATS, EXPORT_PRECISIONS } from './export-words.js'
import { laxInteger } from './lax.js'
import { listSchema } from './list.js'

export const checkpointSchema = z.object({
  id: z.string(),
  step: z.number().int(),
  /** Fully prefixed names (`val/reward`, `loss/train`), numbers only. */
  metrics: z.record(z.string(), z.number()),
  /** Chat template variables that it was trained for: chats with it have them where they do not say otherwise. An addition of ours. */
  chat_template_kwargs: z.record(z.string(), z.json()).optional(),
  created_at: z.string(),
  size_bytes: z.number().int(),
})
export type Checkpoint = z.infer<typeof checkpointSchema>

export const checkpointListSchema = listSchema(checkpointSchema)

export const deleteCheckpointsRequestSchema = z.object({ steps: z.array(laxInteger()).max(100_000) })
export type DeleteCheckpointsRequest = z.infer<typeof deleteCheckpointsRequestSchema>

export const deleteCheckpointsResponseSchema = z.object({
  deleted_count: z.number().int(),
  not_found_steps: z.array(z.number().int()),
  /** Steps that a running job trains from: they stay. An addition of ours: absent from other servers. */
  in_use_steps: z.array(z.number().int()).optional(),
})
export type DeleteCheckpointsResponse = z.infer<typeof deleteCheckpointsResponseSchema>

export const checkpointFileEntrySchema = z.object({
  name: z.string(),
  size_bytes: z.number().int(),
  /** Null for a file that is made while it is sent. */
  sha256: z.string().nullable(),
})
export type CheckpointFileEntry = z.infer<typeof checkpointFileEntrySchema>

/** Query of both file routes. `precision` is for the formats that are made, not for `peft`. */
export const checkpointFilesQuerySchema = z.object({
  format: z.enum(EXPORT_FORMATS).optional(),
  precision: z.enum(EXPORT_PRECISIONS).optional(),
})
export type CheckpointFilesQuery = z.infer<typeof checkpointFilesQuerySchema>

export const checkpointFilesSchema = z.object({
  model_id: z.string(),
  step: z.number().int(),
  format: z.enum(EXPORT_FORMATS).optional(),
  files: z.array(checkpointFileEntrySchema),
})
export type CheckpointFiles = z.infer<typeof checkpointFilesSchema>

/** Body of `PUT …/keep-rule`. */
export const setKeepRuleSchema = z.object({
  /** `all`, or parts of `last 5, best val/reward, every 10`; null: the server's. */
  rule: z.string().min(1).max(500).nullable(),
})

/** Which checkpoints of a model stay. An addition of ours. */
export const keepRuleSchema = z.object({
  model_id: z.string(),
  /** The model's own rule; null: it has none. */
  rule: z.string().nullable(),
  /** The rule of models without one of their own. */
  server_rule: z.string(),
  /** Newest checkpoints that keep the state of their optimizer. */
  keep_optimizers: z.number().int(),
  /** Steps that the rule would delete of those that exist now. */
  drops: z.array(z.number().int()),
})
export type KeepRuleView = z.infer<typeof keepRuleSchema>
