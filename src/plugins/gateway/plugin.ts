/**
 * The recording gateway: calls of programs to other services' models pass through, and what was asked and answered is kept,
 * masked.
 */
import { definePlugin } from '#service/define-plugin.js'
import { gatewaySettings } from './settings.js'

export const gateway = definePlugin({
  name: 'gateway',
  needs: ['messages', 'responses'],
  settings: gatewaySettings,
  endpoints: async () => (await import('./endpoints.js')).gatewayEndpoints,
  start: async (core) => (await import('./start.js')).startGateway(core),
  handlers: async (service) => (await import('./handlers.js')).gatewayHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).gatewaySchema,
  processes: ['plugins/gateway/record/thread.js'],
})
