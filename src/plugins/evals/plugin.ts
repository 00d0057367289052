/**
 * Small evals, as OpenAI's API has them: rows, answers to them, and graders with thresholds; loaded when there is one.
 */
import { definePlugin } from '#service/define-plugin.js'

export const evals = definePlugin({
  name: 'evals',
  needs: ['batches', 'graders'],
  endpoints: async () => (await import('./endpoints.js')).evalEndpoints,
  start: async (core) => (await import('./start.js')).startEvals(core),
  handlers: async (service) => (await import('./handlers.js')).evalHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).evalSchema,
})
