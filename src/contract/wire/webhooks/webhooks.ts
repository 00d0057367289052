/**
 * Webhooks: addresses that are told what becomes of jobs, signed as Standard Webhooks has it (https://www.standardwebhooks.com):
 * headers `webhook-id`, `webhook-timestamp` and `webhook-signature` (`v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`).
 */
import { z } from 'zod'
import { listSchema, pageQuerySchema } from '../list.js'
import { DELIVERY_TYPES, WEBHOOK_EVENTS } from './webhook-words.js'

export const createWebhookRequestSchema = z.object({
  /** https, or http where the server allows the host. */
  url: z.string().min(1).max(2048),
  /** All of them unless given. */
  events: z.array(z.enum(WEBHOOK_EVENTS)).min(1).max(WEBHOOK_EVENTS.length).nullish(),
  /** Only events of this project. */
  project: z.string().min(1).max(256).nullish(),
})
export type CreateWebhookRequest = z.infer<typeof createWebhookRequestSchema>

export const webhookSchema = z.object({
  id: z.string(),
  object: z.literal('webhook'),
  url: z.string(),
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  project: z.string().nullable(),
  created_at: z.string(),
})
export type Webhook = z.infer<typeof webhookSchema>

/** The answer to a create: the secret is shown this once. */
export const createdWebhookSchema = webhookSchema.extend({ secret: z.string() })
export type CreatedWebhook = z.infer<typeof createdWebhookSchema>

export const webhookListSchema = listSchema(webhookSchema)

export const listWebhooksQuerySchema = pageQuerySchema.extend({
  /** Only webhooks for the events of this project. */
  project: z.string().max(256).optional(),
})
export type ListWebhooksQuery = z.infer<typeof listWebhooksQuerySchema>

export const deletedWebhookSchema = z.object({ id: z.string(), object: z.literal('webhook'), deleted: z.literal(true) })
export type DeletedWebhook = z.infer<typeof deletedWebhookSchema>

export const webhookDeliverySchema = z.object({
  id: z.string(),
  /** `webhook-id` of the request: the same for every attempt and for redeliveries. */
  message_id: z.string(),
  type: z.enum(DELIVERY_TYPES),
  status: z.enum(['pending', 'delivered', 'failed']),
  attempts: z.number().int(),
  /** Of the last attempt: HTTP status, or why there was none. */
  response_status: z.number().int().nullable(),
  error: z.string().nullable(),
  next_attempt_at: z.string().nullable(),
  created_at: z.string(),
  delivered_at: z.string().nullable(),
  /** What is sent. */
  payload: z.json(),
})
export type WebhookDelivery = z.infer<typeof webhookDeliverySchema>

export const webhookDeliveryListSchema = listSchema(webhookDeliverySchema)
