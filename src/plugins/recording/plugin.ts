/**
 * Rollouts of any program: what is asked below a rollout's own address is recorded by token ids, and becomes a trajectory.
 */
import { definePlugin } from '#service/define-plugin.js'

export const recording = definePlugin({
  name: 'recording',
  needs: ['responses', 'messages', 'vllm-generate'],
  endpoints: async () => (await import('./endpoints.js')).recordingEndpoints,
  start: async (core) => (await import('./start.js')).startRecording(core),
  handlers: async (service) => (await import('./handlers.js')).recordingHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).recordingSchema,
})
