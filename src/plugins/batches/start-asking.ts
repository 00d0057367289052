/**
 * Who asks lines of batches and rows of evals, beside the service: nothing of it is loaded before there is something to ask.
 */
import type { PluginStart } from '#service/plugin.js'
import type { AskingParts } from './ask-line.js'

/** Between two looks for what another server has left. */
const POLL_MS = 5000
/** Of the requests of a key that may run at once, and of those that the engine computes at once, and of those in a minute. */
const PART = 8

interface Runner {
  wake(): void
  cancel(id: string): void
  stop(): Promise<void>
}

interface RunnerParts extends AskingParts {
  /** What one of several servers does, for two would answer the same. Absent: there is no other. */
  readonly onDuty?: (action: () => Promise<void>) => Promise<unknown>
}

export function startAsking(
  core: PluginStart,
  what: {
    readonly name: 'batches' | 'evals'
    readonly hasOpen: () => Promise<boolean>
    readonly load: () => Promise<(parts: RunnerParts) => Runner>
  },
): Omit<Runner, 'stop'> {
  const { context, lifetimes, isAlone, onDuty, ask, serviceSettings: settings } = core
  const { name } = what
  let timer: NodeJS.Timeout | null = null
  let runner: Runner | null = null
  let isStopped = false

  async function wake(): Promise<void> {
    if (runner === null && (await what.hasOpen())) {
      const create = await what.load()
      if (isStopped) return
      const places = Math.min(settings.maxConcurrentRequests, settings.maxConcurrentSequences)
      runner ??= create({
        ask,
        countRequests: () => context.engines.all().reduce((sum, engine) => sum + engine.requestCount(), 0),
        atOnce: Math.max(1, Math.floor(places / PART)),
        perMinute: settings.requestsPerMinute === null ? null : settings.requestsPerMinute / PART,
        ...(isAlone ? {} : { onDuty: (action) => onDuty(name, action) }),
        ...(core.tuning as object | undefined),
      })
    }
    runner?.wake()
  }
  const look = (): void => {
    wake().catch((error: unknown) => context.logger.error({ err: error, of: name }, 'asking.look_failed'))
  }
  lifetimes.add(name, async () => {
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
