/**
 * The documentation that a server shows: pages for people, and its description for programs.
 */
import { definePlugin } from '#service/define-plugin.js'

export const docs = definePlugin({
  name: 'docs',
  endpoints: async () => (await import('./endpoints.js')).docsEndpoints,
  handlers: async ({ app }) => (await import('./handlers.js')).docsHandlers(app),
})
