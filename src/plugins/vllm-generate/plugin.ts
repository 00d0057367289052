/**
 * vLLM's endpoint of tokens in, tokens out, which trainers sample by.
 */
import { definePlugin } from '#service/define-plugin.js'

export const vllmGenerate = definePlugin({
  name: 'vllm-generate',
  endpoints: async () => (await import('./endpoints.js')).generateEndpoints,
  handlers: async (service) => (await import('./handlers.js')).generateHandlers(service),
})
