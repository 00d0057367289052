/**
 * Webhooks: addresses that are told what becomes of jobs.
 */
import { definePlugin } from '#service/plugin.js'

export const webhooks = definePlugin({
  name: 'webhooks',
  endpoints: async () => (await import('./endpoints.js')).webhookEndpoints,
  start: async (core) => (await import('./start.js')).startSending(core),
  handlers: async (service) => (await import('./handlers.js')).webhookHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).webhookSchema,
})
