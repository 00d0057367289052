/**
 * Workers on other machines: the command that makes one of a machine, and how one gets a job of this server.
 */
import { definePlugin } from '#service/define-plugin.js'

export const remoteWorkers = definePlugin({
  name: 'remote-workers',
  endpoints: async () => (await import('./endpoints.js')).remoteWorkerEndpoints,
  handlers: async (service) => (await import('./handlers.js')).remoteWorkerHandlers(service),
  commands: {
    after: 'serve',
    rows: [
      {
        path: 'worker',
        summary: 'Train jobs of a service on another machine',
        load: async () => (await import('./command.js')).worker,
      },
    ],
  },
})
