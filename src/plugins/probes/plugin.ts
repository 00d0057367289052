/**
 * Watched prompts: every step of a model answers them.
 */
import { definePlugin } from '#service/plugin.js'

export const probes = definePlugin({
  name: 'probes',
  endpoints: async () => (await import('./endpoints.js')).probeEndpoints,
  start: async (core) => (await import('./start.js')).startAnswering(core),
  handlers: async (service) => (await import('./handlers.js')).probeHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).probeSchema,
})
