/**
 * Who answers runs of evals, beside the service: nothing of it is loaded before there is one.
 */
import type { PluginStart } from '#service/plugin.js'
import type { RunWaker } from './evals.js'
import type { RunRunner } from './run-runner.js'
import { listOpenRuns } from './storage/evals.js'

/** Between two looks for runs that another server has left. */
const POLL_MS = 5000
/** Of the requests of a key that may run at once, and of those in a minute: as batches have. */
const PART = 8

/** Starts it for a service; it ends with the service. */
export async function startEvals(core: PluginStart): Promise<RunWaker> {
  const { context, lifetimes, isAlone, onDuty, ask, serviceSettings: settings } = core
  const { db, logger } = context
  let timer: NodeJS.Timeout | null = null
  let runner: RunRunner | null = null
  let isStopped = false

  async function wake(): Promise<void> {
    if (runner === null && (await listOpenRuns(db, 1)).length > 0) {
      const { createRunRunner } = await import('./run-runner.js')
      if (isStopped) return
      const places = Math.min(settings.maxConcurrentRequests, settings.maxConcurrentSequences)
      runner ??= createRunRunner(context, {
        ask,
        countRequests: () => context.engines.all().reduce((sum, engine) => sum + engine.requestCount(), 0),
        atOnce: Math.max(1, Math.floor(places / PART)),
        perMinute: settings.requestsPerMinute === null ? null : settings.requestsPerMinute / PART,
        // two servers would answer the same
        ...(isAlone ? {} : { onDuty: (action) => onDuty('evals', action) }),
        ...(core.tuning as object | undefined),
      })
    }
    runner?.wake()
  }
  const look = (): void => {
    wake().catch((error: unknown) => logger.error({ err: error }, 'eval.look_failed'))
  }
  lifetimes.add('evals', async () => {
    isStopped = true
    if (timer !== null) clearInterval(timer)
    await runner?.stop()
  })
  core.onListening(() => {
    look()
    if (!isAlone) timer = setInterval(look, POLL_MS).unref()
  })
  return { wake: look, cancel: (id) => runner?.cancel(id) }
}
