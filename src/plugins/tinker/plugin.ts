/**
 * The Tinker client: training loops of one's own over training sessions of the core, request by request.
 */
import { definePlugin } from '#service/define-plugin.js'

export const tinker = definePlugin({
  name: 'tinker',
  endpoints: async () => (await import('./endpoints.js')).tinkerEndpoints,
  start: async (core) => (await import('./start.js')).startSampling(core),
  handlers: async (service) => (await import('./handlers.js')).tinkerHandlers(service),
})
