/**
 * Who answers batches, beside the service.
 */
import { createFileService } from '#service/operations/files.js'
import type { PluginStart } from '#service/plugin.js'
import type { BatchWaker } from './batches.js'
import { startAsking } from './start-asking.js'
import { listOpen } from './storage/batches.js'

/** Starts it for a service; it ends with the service. */
export function startBatches(core: PluginStart): BatchWaker {
  const { context } = core
  return startAsking(core, {
    name: 'batches',
    hasOpen: async () => (await listOpen(context.db)).length > 0,
    load: async () => {
      const { createBatchRunner } = await import('./batch-runner.js')
      return (parts) => createBatchRunner(context, { ...parts, files: createFileService(context) })
    },
  })
}
