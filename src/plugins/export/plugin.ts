/**
 * Models for other programs, and adapters of others: checkpoints become merged weights or GGUF, and what comes from elsewhere is
 * checked and written anew, each in a process of its own.
 */
import { definePlugin } from '#service/define-plugin.js'

export const modelExport = definePlugin({
  name: 'export',
  processes: ['plugins/export/main.js'],
  exporter: async (options) => (await import('./exporter.js')).createExporter(options),
})
