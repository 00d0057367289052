/**
 * Engine nodes: machines that compute answers for a service, and the command that makes one of a machine.
 */
import { definePlugin } from '#service/define-plugin.js'
import { nodeSettings } from './settings.js'

export const engineNodes = definePlugin({
  name: 'engine-nodes',
  settings: nodeSettings,
  processes: ['plugins/engine-nodes/node/main.js', 'plugins/engine-nodes/node/group-leader.js'],
  endpoints: async () => (await import('./endpoints.js')).engineNodeEndpoints,
  start: async (core) => (await import('./start.js')).startEngineNodes(core),
  handlers: async (service) => (await import('./handlers.js')).engineNodeHandlers(service),
  commands: {
    after: 'serve',
    rows: [
      {
        path: 'engine-node',
        summary: 'Answer chats of a service on another machine',
        load: async () => (await import('./command.js')).engineNode,
      },
    ],
  },
})
