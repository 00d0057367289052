/**
 * The audit log as it is answered, and as its lines are. Ours.
 */
import { z } from 'zod'
import { listSchema, pageQuerySchema } from '#contract/wire/list.js'

const auditEventSchema = z.object({
  id: z.string(),
  object: z.literal('audit.event'),
  created_at: z.string(),
  entity: z.string(),
  /** That the key is bound to; null: to none. */
  project: z.string().nullable(),
  key_id: z.string(),
  /** The browser's session that stood for the key. */
  session_id: z.string().nullable(),
  /** The endpoint: `DELETE /v1/files/{file_id}`. */
  action: z.string(),
  /** What its path named. */
  target: z.record(z.string(), z.string()),
  /** Of what was made. */
  made_id: z.string().nullable(),
  /** Code of the refusal; null: it was done. */
  error: z.string().nullable(),
  request_id: z.string(),
  /** Address of the client, as far as proxies that are trusted say it. */
  client: z.string().nullable(),
})
export type AuditEvent = z.infer<typeof auditEventSchema>

export const auditListSchema = listSchema(auditEventSchema)

export const listAuditQuerySchema = pageQuerySchema.extend({
  action: z.string().max(300).optional(),
  key_id: z.string().max(100).optional(),
})
