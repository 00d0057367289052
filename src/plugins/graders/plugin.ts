/**
 * Graders: rewards as data, tried over HTTP in the words of OpenAI's fine-tuning, and by a command.
 */
import { definePlugin } from '#service/define-plugin.js'

export const graders = definePlugin({
  name: 'graders',
  endpoints: async () => (await import('./endpoints.js')).graderEndpoints,
  handlers: async (service) => (await import('./handlers.js')).graderHandlers(service),
  commands: {
    after: 'eval',
    rows: [
      {
        path: 'grader check',
        summary: 'Try a grader on an answer',
        load: async () => (await import('./commands/check.js')).checkGraderCommand,
      },
    ],
  },
})
