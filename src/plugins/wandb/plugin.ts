/**
 * W&B's client against this server: runs and artifacts, checkpoints as artifacts, and what was logged about a model.
 */
import { definePlugin } from '#service/define-plugin.js'

export const wandb = definePlugin({
  name: 'wandb',
  endpoints: async () => (await import('./endpoints.js')).wandbEndpoints,
  handlers: async (service) => (await import('./handlers.js')).wandbHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).wandbSchema,
  artifactRows: async (...asked) => (await import('./artifact-rows.js')).findArtifactRows(...asked),
})
