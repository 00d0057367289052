/**
 * What a newcomer sees first: a small model that learns something in a minute.
 */
import { definePlugin } from '#service/define-plugin.js'

export const demo = definePlugin({
  name: 'demo',
  endpoints: async () => (await import('./endpoints.js')).demoEndpoints,
  start: async (core) => (await import('./start.js')).startDemoPlace(core),
  handlers: async (service) => (await import('./handlers.js')).demoHandlers(service),
  commands: {
    after: 'serve',
    rows: [
      {
        path: 'demo',
        summary: 'Teach a small model something in a minute',
        group: 'begin',
        load: async () => (await import('./command.js')).demo,
      },
    ],
  },
})
