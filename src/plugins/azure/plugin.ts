/**
 * Addresses by which Azure's clients call what OpenAI's call.
 */
import { definePlugin } from '#service/define-plugin.js'

export const azure = definePlugin({
  name: 'azure',
  endpoints: async () => (await import('./endpoints.js')).azureEndpoints,
})
