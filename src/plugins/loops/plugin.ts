/**
 * Loops: training by reinforcement learning that the server goes through step by step, with a grader as its reward.
 */
import { definePlugin } from '#service/define-plugin.js'

export const loops = definePlugin({
  name: 'loops',
  endpoints: async () => (await import('./endpoints.js')).loopEndpoints,
  handlers: async (service) => (await import('./handlers.js')).loopHandlers(service),
  start: async (core) => (await import('./start.js')).startLoops(core),
  tables: async () => (await import('./storage/schema-part.js')).loopSchema,
  processes: ['plugins/loops/process/main.js'],
})
