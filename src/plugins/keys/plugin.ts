/**
 * API keys for others, and what was used, by key and by day. The first key is the core's, as is the counting.
 */
import { definePlugin } from '#service/define-plugin.js'

export const keys = definePlugin({
  name: 'keys',
  endpoints: async () => (await import('./endpoints.js')).keyEndpoints,
  handlers: async (service) => (await import('./handlers.js')).keyHandlers(service),
  commands: {
    after: 'events',
    rows: [
      {
        path: 'keys create',
        summary: 'Make an API key',
        load: async () => (await import('./commands/create.js')).createKey,
      },
      { path: 'keys list', summary: 'List API keys', load: async () => (await import('./commands/list.js')).listKeys },
      {
        path: 'keys usage',
        summary: 'Show requests and tokens by API key',
        load: async () => (await import('./commands/key-usage.js')).keysUsage,
      },
      {
        path: 'keys revoke',
        summary: 'Revoke API keys',
        load: async () => (await import('./commands/revoke.js')).revokeKeys,
      },
      {
        path: 'usage',
        summary: 'Show tokens, requests and training time by day',
        load: async () => (await import('./commands/usage.js')).usage,
      },
    ],
  },
})
