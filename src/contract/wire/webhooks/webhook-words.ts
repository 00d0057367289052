/**
 * Types of events webhooks tell of. Plain words without a schema, so that the command line loads them in no time.
 */
export const WEBHOOK_EVENTS = [
  'training_job.started',
  'training_job.completed',
  'training_job.failed',
  'training_job.cancelled',
  'checkpoint.created',
] as const
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]
