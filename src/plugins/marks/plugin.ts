/**
 * Marks: what readers think of answers, and training files made of that.
 */
import { definePlugin } from '#service/plugin.js'

export const marks = definePlugin({
  name: 'marks',
  endpoints: async () => (await import('./endpoints.js')).markEndpoints,
  handlers: async (service) => (await import('./handlers.js')).markHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).markSchema,
})
