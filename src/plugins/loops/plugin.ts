/**
 * Loops: training by reinforcement learning that the server goes through step by step, with a grader as its reward.
 */
import { definePlugin } from '#service/define-plugin.js'

export const loops = definePlugin({
  name: 'loops',
  tables: async () => (await import('./storage/schema-part.js')).loopSchema,
})
