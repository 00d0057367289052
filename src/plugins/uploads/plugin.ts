/**
 * OpenAI's uploads: a large file in parts, each sent again by itself, joined into an ordinary file.
 */
import { definePlugin } from '#service/define-plugin.js'

export const uploads = definePlugin({
  name: 'uploads',
  endpoints: async () => (await import('./endpoints.js')).uploadEndpoints,
  start: async (core) => (await import('./start.js')).startSweeping(core),
  handlers: async (service) => (await import('./handlers.js')).uploadHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).uploadSchema,
})
