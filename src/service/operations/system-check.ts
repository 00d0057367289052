/**
 * Health checks that use the real parts: a row is written and read back, the queue is asked, the default engine answers a ping.
 */
import type { CheckResult, SystemCheckResponse } from '#api/wire/health.js'
import { findClaimableJob } from '#service/storage/jobs/states.js'
import { writeAndReadProbe } from '#service/storage/upkeep/health-probes.js'
import type { ServiceContext } from './context.js'

/** Each check runs under its own limit, even after another has failed. */
const CHECK_TIMEOUT_MS = 5_000

export interface SystemCheckService {
  run(): Promise<{ readonly isHealthy: boolean; readonly body: SystemCheckResponse }>
}

export function createSystemCheckService(context: ServiceContext): SystemCheckService {
  const { db, ids } = context

  async function checkDatabase(): Promise<void> {
    const value = ids.secret(8)
    if ((await writeAndReadProbe(db, { id: ids.uuid(), value })) !== value)
      throw new Error('a row did not read back as written')
  }

  async function checkQueue(): Promise<void> {
    const failure = context.dispatcher.lastError()
    if (failure !== null) throw new Error(`the job queue failed: ${failure}`)
    await findClaimableJob(db)
  }

  async function checkEngine(): Promise<void> {
    const base = context.baseModels[0]
    if (base === undefined) throw new Error('no base model is configured')
    await context.engines.engineOf(base.name).ping(ids.uuid(), CHECK_TIMEOUT_MS)
  }

  async function measure(check: () => Promise<void>): Promise<CheckResult> {
    const startMs = context.clock.monotonicMs()
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${CHECK_TIMEOUT_MS} ms`)), CHECK_TIMEOUT_MS)
    })
    const errors: string[] = []
    try {
      await Promise.race([check(), timeout])
    } catch (error) {
      errors.push(error instanceof Error ? error.message : String(error))
    } finally {
      clearTimeout(timer)
    }
    const durationMs = Math.round((context.clock.monotonicMs() - startMs) * 10) / 10
    return { success: errors.length === 0, duration_ms: durationMs, errors }
  }

  return {
    run: async () => {
      const [database, queue, engine] = await Promise.all([
        measure(checkDatabase),
        measure(checkQueue),
        measure(checkEngine),
      ])
      return {
        isHealthy: database.success && queue.success && engine.success,
        body: { api: true, database: database.success, cpu_queue: queue, gpu_queue: engine },
      }
    },
  }
}
