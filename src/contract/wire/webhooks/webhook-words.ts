/**
 * Types of events webhooks tell of. Plain words without a schema, so that the command line loads them in no time.
 */
export const WEBHOOK_EVENTS = [
  'training_job.started',
  'training_job.completed',
  'training_job.failed',
  'training_job.cancelled',
  'checkpoint.created',
  'loop.succeeded',
  'loop.failed',
  'loop.cancelled',
  // in OpenAI's words
  'fine_tuning.job.succeeded',
  'fine_tuning.job.failed',
  'fine_tuning.job.cancelled',
  'batch.completed',
  'batch.failed',
  'batch.cancelled',
  'batch.expired',
  'eval.run.succeeded',
  'eval.run.failed',
  'eval.run.canceled',
] as const
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

/** Of a message that is sent when somebody asks for it, to see whether it arrives; no webhook subscribes to it. */
export const TEST_EVENT = 'webhook.test'
/** What a delivery may be of. */
export const DELIVERY_TYPES = [...WEBHOOK_EVENTS, TEST_EVENT] as const
export type DeliveryType = (typeof DELIVERY_TYPES)[number]
