/**
 * OpenAI's batches: a file of requests that is answered behind everything else, into a file of answers.
 */
import { definePlugin } from '#service/define-plugin.js'

export const batches = definePlugin({
  name: 'batches',
  endpoints: async () => (await import('./endpoints.js')).batchEndpoints,
  start: async (core) => (await import('./start.js')).startBatches(core),
  handlers: async (service) => (await import('./handlers.js')).batchHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).batchSchema,
})
