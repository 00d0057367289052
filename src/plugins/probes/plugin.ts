/**
 * Watched prompts: every step of a model answers them.
 */
import { definePlugin } from '#service/define-plugin.js'

export const probes = definePlugin({
  name: 'probes',
  endpoints: async () => (await import('./endpoints.js')).probeEndpoints,
  start: async (core) => (await import('./start.js')).startAnswering(core),
  handlers: async (service) => (await import('./handlers.js')).probeHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).probeSchema,
  commands: {
    after: 'models delete',
    rows: [
      {
        path: 'probes add',
        summary: 'Watch a prompt: every later step of a model answers it',
        load: async () => (await import('./commands/add.js')).addProbe,
      },
      {
        path: 'probes list',
        summary: 'List watched prompts with the answers of the base model and a step',
        load: async () => (await import('./commands/list.js')).listProbes,
      },
      {
        path: 'probes answers',
        summary: 'Show what each step says to a watched prompt',
        load: async () => (await import('./commands/answers.js')).probeAnswers,
      },
      {
        path: 'probes delete',
        summary: 'Watch a prompt no longer, and forget its answers',
        load: async () => (await import('./commands/delete.js')).deleteProbe,
      },
    ],
  },
})
