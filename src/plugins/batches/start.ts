/**
 * Who answers batches, beside the service: nothing of it is loaded before there is one.
 */
import { createFileService } from '#service/operations/files.js'
import type { PluginStart } from '#service/plugin.js'
import type { BatchRunner } from './batch-runner.js'
import type { BatchWaker } from './batches.js'
import { listOpen } from './storage/batches.js'

/** Between two looks for batches that another server has left. */
const POLL_MS = 5000
/** Of the requests of a key that may run at once, and of those that the engine computes at once, and of those in a minute. */
const PART = 8

/** Starts it for a service; it ends with the service. */
export async function startBatches(core: PluginStart): Promise<BatchWaker> {
  const { context, lifetimes, isAlone, onDuty, ask, serviceSettings: settings } = core
  const { db, logger } = context
  let timer: NodeJS.Timeout | null = null
  let runner: BatchRunner | null = null
  let isStopped = false

  async function wake(): Promise<void> {
    if (runner === null && (await listOpen(db)).length > 0) {
      const { createBatchRunner } = await import('./batch-runner.js')
      if (isStopped) return
      runner ??= createBatchRunner(context, {
        ask,
        countRequests: () => context.engines.all().reduce((sum, engine) => sum + engine.requestCount(), 0),
        files: createFileService(context),
        atOnce: Math.max(
          1,
          Math.floor(Math.min(settings.maxConcurrentRequests, settings.maxConcurrentSequences) / PART),
        ),
        perMinute: settings.requestsPerMinute === null ? null : settings.requestsPerMinute / PART,
        // two servers would answer the same
        ...(isAlone ? {} : { onDuty: (action) => onDuty('batches', action) }),
        ...(core.tuning as object | undefined),
      })
    }
    runner?.wake()
  }
  const look = (): void => {
    wake().catch((error: unknown) => logger.error({ err: error }, 'batch.look_failed'))
  }
  lifetimes.add('batches', async () => {
    isStopped = true
    if (timer !== null) clearInterval(timer)
    await runner?.stop()
  })
  core.onListening(() => {
    look()
    if (!isAlone) timer = setInterval(look, POLL_MS).unref()
  })
  return {
    wake: look,
    cancel: (id) => {
      runner?.cancel(id)
      look()
    },
  }
}
