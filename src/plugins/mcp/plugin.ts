/**
 * Post-training as tools of the Model Context Protocol: at `/mcp` of the service, and by `trainyard mcp` over standard input.
 */
import { definePlugin } from '#service/define-plugin.js'

export const mcp = definePlugin({
  name: 'mcp',
  // schemas of endpoints as JSON Schema
  needs: ['docs'],
  commands: {
    after: 'usage',
    rows: [
      {
        path: 'mcp',
        summary: 'Offer the service to an agent as tools, over standard input',
        load: async () => (await import('./command.js')).mcp,
      },
      {
        path: 'skills add',
        summary: 'Write into a project what teaches an agent to train with this',
        load: async () => (await import('./skill-command.js')).addSkill,
      },
    ],
  },
  endpoints: async () => (await import('./endpoints.js')).mcpEndpoints,
  start: async ({ ask }) => ({ ask }),
  handlers: async (service) => (await import('./handlers.js')).mcpHandlers(service),
})
