/**
 * Webhooks: addresses that are told what becomes of jobs.
 */
import { definePlugin } from '#service/define-plugin.js'
import { webhookSettings } from './settings.js'

export const webhooks = definePlugin({
  name: 'webhooks',
  settings: webhookSettings,
  endpoints: async () => (await import('./endpoints.js')).webhookEndpoints,
  start: async (core) => (await import('./start.js')).startSending(core),
  handlers: async (service) => (await import('./handlers.js')).webhookHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).webhookSchema,
  commands: {
    after: 'restore',
    rows: [
      {
        path: 'webhooks create',
        summary: 'Have events sent to an address',
        load: async () => (await import('./commands/create.js')).createWebhook,
      },
      {
        path: 'webhooks list',
        summary: 'List webhooks',
        load: async () => (await import('./commands/list.js')).listWebhooks,
      },
      {
        path: 'webhooks deliveries',
        summary: 'Show what was sent to a webhook',
        load: async () => (await import('./commands/deliveries.js')).webhookDeliveries,
      },
      {
        path: 'webhooks test',
        summary: 'Send a test message to a webhook',
        load: async () => (await import('./commands/test.js')).testWebhook,
      },
      {
        path: 'webhooks redeliver',
        summary: 'Send messages of a webhook again',
        load: async () => (await import('./commands/redeliver.js')).redeliverWebhook,
      },
      {
        path: 'webhooks delete',
        summary: 'Delete webhooks',
        load: async () => (await import('./commands/delete.js')).deleteWebhooks,
      },
    ],
  },
})
