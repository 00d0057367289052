/**
 * OpenAI's fine-tuning API over jobs and models of the core, and loops.
 */
import { definePlugin } from '#service/define-plugin.js'

export const fineTuning = definePlugin({
  name: 'fine-tuning',
  needs: ['loops'],
  endpoints: async () => (await import('./endpoints.js')).fineTuningEndpoints,
  start: async ({ ask }) => ({
    checkGrader: (await import('../loops/check-grader.js')).createGraderCheck(ask),
  }),
  handlers: async (service) => (await import('./handlers.js')).fineTuningHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).fineTuningSchema,
})
