/**
 * Who answers watched prompts, beside the service: nothing of it is loaded before an answer waits.
 */
import type { PluginStart } from '#service/plugin.js'
import type { ProbeRunner } from './probe-runner.js'
import { queuedBaseModels } from './storage/queued-answers.js'

/** Between two looks for steps that were made. */
const POLL_MS = 1000

/** Starts it for a service; it ends with the service. */
export async function startAnswering(core: PluginStart): Promise<Pick<ProbeRunner, 'wake' | 'forget'>> {
  const { context, lifetimes, isAlone, onDuty } = core
  const { db, logger } = context
  let timer: NodeJS.Timeout | null = null
  let runner: ProbeRunner | null = null
  let isStopped = false

  // two servers would answer the same
  const inTurn = (action: () => Promise<void>): Promise<unknown> => onDuty('probes', action)

  async function wake(): Promise<void> {
    if (runner === null && (await queuedBaseModels(db)).length > 0) {
      const { createProbeRunner } = await import('./probe-runner.js')
      if (isStopped) return
      runner ??= createProbeRunner(context, isAlone ? undefined : inTurn)
      runner.start(POLL_MS)
      if (timer !== null) clearInterval(timer)
    }
    runner?.wake()
  }
  const look = (): void => {
    wake().catch((error: unknown) => logger.error({ err: error }, 'probe.look_failed'))
  }
  lifetimes.add('probes', async () => {
    isStopped = true
    if (timer !== null) clearInterval(timer)
    await runner?.stop()
  })
  core.onListening(() => {
    timer = setInterval(look, POLL_MS).unref()
  })
  return { wake: look, forget: (probeId) => runner?.forget(probeId) }
}
