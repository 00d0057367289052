/**
 * OpenAI's fine-tuning API over jobs and models of the core, and loops.
 */
import { definePlugin } from '#service/define-plugin.js'
import type { PluginStart } from '#service/plugin.js'
import type { webhookSettings } from '../webhooks/settings.js'

export const fineTuning = definePlugin({
  name: 'fine-tuning',
  needs: ['loops', 'webhooks', 'graders'],
  endpoints: async () => (await import('./endpoints.js')).fineTuningEndpoints,
  start: async ({ ask, settings }: PluginStart<typeof webhookSettings>) => ({
    toolHosts: settings.webhookHosts,
    checkGrader: (await import('../loops/check-grader.js')).createGraderCheck(ask),
  }),
  handlers: async (service) => (await import('./handlers.js')).fineTuningHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).fineTuningSchema,
  commands: {
    after: 'eval',
    rows: [
      {
        path: 'check openai',
        summary: 'Say what of files for OpenAI’s fine-tuning runs here',
        load: async () => (await import('./commands/check.js')).checkOpenAiCommand,
      },
    ],
  },
})
