/**
 * OpenAI's Responses API over the same chat, with responses that are stored to go on from.
 */
import { definePlugin } from '#service/define-plugin.js'

export const responses = definePlugin({
  name: 'responses',
  endpoints: async () => (await import('./endpoints.js')).responseEndpoints,
  start: async (core) => (await import('./response-store.js')).startResponseStore(core),
  handlers: async (service) => (await import('./handlers.js')).responseHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).responseSchema,
})
