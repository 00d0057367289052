/**
 * Who runs loops, beside the service: nothing of it is loaded before a loop wants a process.
 */
import type { PluginStart } from '#service/plugin.js'
import type { webhookSettings } from '../webhooks/settings.js'
import { type CheckGrader, createGraderCheck } from './check-grader.js'
import { freeLoops, listDueLoops } from './storage/claims.js'
import type { LoopSupervisor } from './supervisor.js'
import { DEFAULT_LOOP_TIMING, type LoopTiming } from './timing.js'

/** Starts it for a service; it ends with the service. */
export async function startLoops(
  core: PluginStart<typeof webhookSettings>,
): Promise<{ readonly checkGrader: CheckGrader; readonly toolHosts: readonly string[] }> {
  const { context, lifetimes, isAlone } = core
  const { db, logger } = context
  const timing: LoopTiming = { ...DEFAULT_LOOP_TIMING, ...core.tuning }
  let timer: NodeJS.Timeout | null = null
  let supervisor: LoopSupervisor | null = null
  let looking: Promise<void> | null = null
  let isStopped = false

  async function look(url: string): Promise<void> {
    if (supervisor === null && (await listDueLoops(db, 1)).length > 0) {
      const { createLoopSupervisor } = await import('./supervisor.js')
      const { createToolCalls, createToolRules } = await import('./tools.js')
      const callTool = createToolCalls(createToolRules(core.settings.webhookHosts, context.lookUp), timing.tools)
      supervisor = createLoopSupervisor({ ...context, callTool }, url, timing)
    }
    if (!isStopped) await supervisor?.look()
  }
  if (isAlone) await freeLoops(db)
  async function stop(): Promise<void> {
    isStopped = true
    if (timer !== null) clearInterval(timer)
    await looking
    await supervisor?.stop()
  }
  lifetimes.add('loops', stop)
  core.onListening((url, closing) => {
    // the end of requests is not to wait for what a process asks for
    closing.addEventListener('abort', () => void stop(), { once: true })
    timer = setInterval(() => {
      looking ??= look(url)
        .catch((error: unknown) => logger.error({ err: error }, 'loop.look_failed'))
        .finally(() => {
          looking = null
        })
    }, timing.pollMs).unref()
  })
  return { checkGrader: createGraderCheck(core.ask), toolHosts: core.settings.webhookHosts }
}
