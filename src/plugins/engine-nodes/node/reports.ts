/**
 * Tells the server of a node, again and again, for as long as it lives.
 */
import { AppError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { EngineNodeReport } from '#contract/processes/engine-node.js'
import type { ServerLink } from './server-link.js'

export interface ReportsOptions {
  readonly link: Pick<ServerLink, 'report'>
  readonly clock: Clock
  /** What is said now. */
  readonly describe: () => EngineNodeReport
  /** How long a server that does not answer is tried. */
  readonly patienceMs: number
  readonly onAway: (reason: string) => void
  readonly onBack: () => void
  /** The server refuses the node, or was away for too long: nothing is said any more. */
  readonly onEnd: (error: AppError) => void
}

export interface Reports {
  /** Says it now. @throws {AppError} as the server has it */
  now(): Promise<void>
  /** Goes on saying it. */
  start(): void
  stop(): void
}

const RETRY_MS = 1000
/** Errors after which the server is asked again. */
const PASSING: ReadonlySet<AppError['category']> = new Set(['unavailable', 'rate_limited', 'internal'])

export function createReports(options: ReportsOptions): Reports {
  const { link, clock, describe } = options
  let everyMs = RETRY_MS
  let timer: NodeJS.Timeout | null = null
  let isStopped = false
  let awaySinceMs: number | null = null
  let wasAccepted = false

  async function now(): Promise<void> {
    everyMs = (await link.report(describe())).report_seconds * 1000
    wasAccepted = true
  }

  async function tick(): Promise<void> {
    let nextMs = RETRY_MS
    try {
      await now()
      if (awaySinceMs !== null) options.onBack()
      awaySinceMs = null
      nextMs = everyMs
    } catch (error) {
      if (isStopped) return
      const reason = error instanceof AppError ? error : new AppError('internal', 'report_failed', String(error))
      if (awaySinceMs === null) options.onAway(reason.message)
      awaySinceMs ??= clock.monotonicMs()
      // a server that was started anew looks at the node again, and may do so when it is busiest
      const isPassing = PASSING.has(reason.category) || (wasAccepted && reason.code === 'engine_node_unreachable')
      if (!isPassing || clock.monotonicMs() - awaySinceMs > options.patienceMs) {
        options.onEnd(reason)
        return
      }
    }
    if (!isStopped) timer = setTimeout(() => void tick(), nextMs)
  }

  return {
    now,
    start: () => {
      timer = setTimeout(() => void tick(), everyMs)
    },
    stop: () => {
      isStopped = true
      if (timer !== null) clearTimeout(timer)
    },
  }
}
