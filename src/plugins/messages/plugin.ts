/**
 * Anthropic's Messages API over the same chat.
 */
import { definePlugin } from '#service/define-plugin.js'

export const messages = definePlugin({
  name: 'messages',
  endpoints: async () => (await import('./endpoints.js')).messageEndpoints,
  handlers: async (service) => (await import('./handlers.js')).messageHandlers(service),
})
