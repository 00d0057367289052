/**
 * API keys: `POST`, `GET` and `DELETE /v1/preview/keys`. The hosted service publishes no such routes; the form is that of its
 * other objects.
 *
 * A key sees one entity, or one project of it. Scopes contain each other: `read` reads everything and asks models for
 * answers, `write` also creates, trains and deletes, `admin` also manages keys. `worker` is apart: such a key takes training jobs
 * and opens nothing else.
 */
import { z } from 'zod'
import { listSchema, pageQuerySchema } from '../list.js'
import { KEY_SCOPES, MAX_KEY_LIFE_SECONDS } from './key-words.js'

export const createKeyRequestSchema = z.object({
  /** To tell keys apart. Default empty. */
  name: z.string().max(256).nullish(),
  scope: z.enum(KEY_SCOPES),
  /** The one project the key may see. Default all of the entity; a key bound to a project makes keys for that one only. */
  project: z.string().min(1).max(256).nullish(),
  /** Seconds from now until it is refused. Default never; for a browser's session 30 days, which are its most; never beyond the key that asks. */
  expires_in_seconds: z.number().int().min(1).max(MAX_KEY_LIFE_SECONDS).nullish(),
})
export type CreateKeyRequest = z.infer<typeof createKeyRequestSchema>

export const apiKeySchema = z.object({
  object: z.literal('api_key'),
  id: z.string(),
  name: z.string(),
  /** First characters of the key. */
  key_prefix: z.string(),
  entity: z.string(),
  project: z.string().nullable(),
  scope: z.enum(KEY_SCOPES),
  /** ISO 8601, UTC, as all times here. */
  created_at: z.string(),
  expires_at: z.string().nullable(),
  /** About a second late; null before the first use. */
  last_used_at: z.string().nullable(),
  /** True for the key that asks. */
  is_current: z.boolean(),
})
export type ApiKey = z.infer<typeof apiKeySchema>

/** The only answer that holds the key itself. */
export const createdKeySchema = apiKeySchema.extend({ key: z.string() })
export type CreatedKey = z.infer<typeof createdKeySchema>

export const apiKeyListSchema = listSchema(apiKeySchema)

export const listKeysQuerySchema = pageQuerySchema.extend({
  /** Only keys bound to this project. */
  project: z.string().max(256).optional(),
})
export type ListKeysQuery = z.infer<typeof listKeysQuerySchema>

export const deletedKeySchema = z.object({ id: z.string(), object: z.literal('api_key'), deleted: z.literal(true) })
export type DeletedKey = z.infer<typeof deletedKeySchema>
