/**
 * The recording gateway: calls of programs to other services' models pass through, and what was asked and answered is kept,
 * masked.
 */
import { definePlugin } from '#service/define-plugin.js'
import { gatewaySettings } from './settings.js'

export const gateway = definePlugin({
  name: 'gateway',
  needs: ['demo', 'messages', 'responses'],
  settings: gatewaySettings,
  endpoints: async () => (await import('./endpoints.js')).gatewayEndpoints,
  start: async (core) => (await import('./start.js')).startGateway(core),
  handlers: async (service) => (await import('./handlers.js')).gatewayHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).gatewaySchema,
  commands: {
    after: 'restore',
    rows: [
      {
        path: 'gateway',
        summary: 'Record what programs ask of another service’s models',
        load: async () => (await import('./commands/gateway.js')).gatewayCommand,
      },
      {
        path: 'routes create',
        summary: 'Make an address that passes calls on and records them',
        load: async () => (await import('./commands/create.js')).createRoute,
      },
      {
        path: 'routes list',
        summary: 'List routes of the gateway, newest first',
        load: async () => (await import('./commands/list.js')).listRoutesCommand,
      },
      {
        path: 'routes get',
        summary: 'Show how many calls of a route there are, what they cost, and how alike they are',
        load: async () => (await import('./commands/get.js')).getRouteCommand,
      },
      {
        path: 'routes export',
        summary: 'Write recorded calls of a route as rows of train sft',
        load: async () => (await import('./commands/export.js')).exportRoute,
      },
      {
        path: 'routes delete',
        summary: 'Delete routes with all of their calls',
        load: async () => (await import('./commands/delete.js')).deleteRoutes,
      },
    ],
  },
  processes: ['plugins/gateway/record/thread.js'],
})
