/**
 * Plans of training jobs: one short-lived process each, which runs the job's own code up to its first step.
 *
 * One at a time, keys in turns: a plan tokenizes all rows and measures the machine, which two at once would falsify. It may take
 * as long as it gets on, for the machine may be busy: a process that shows no sign of life, or computes and reports nothing done, is
 * given up, and its heap bounds what there can be to do. A client that goes away ends its plan.
 */
import { type ChildProcess, fork } from 'node:child_process'
import type { PlanFindings } from '#api/wire/training/plan.js'
import type { PlanReply, PlanRequest } from '#api/wire/training/plan-process.js'
import { fromErrorMessage } from '#base/error-message.js'
import { AppError } from '#base/errors.js'
import { createTurns } from '#base/util/turns.js'
import { stepBack } from './child.js'
import { builtModule, dieWithParentFlags } from './entry.js'
import { withHugePages } from './huge-pages.js'
import { CHILD_STDIO, releaseLifeline } from './lifeline.js'
import { createWatchdog } from './watchdog.js'

export interface PlannerOptions {
  /** Of the processes. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** A plan that computes for so long without getting on is given up; default ten minutes. */
  readonly stuckMs?: number
}

export interface Planner {
  /**
   * @param key whose plan it is: keys take turns
   * @param signal of the client; aborted, the plan ends
   * @throws {AppError} what is wrong with the job's data; `queue_full`, `plan_too_large`, `plan_failed`, `client_closed`
   */
  plan(key: string, request: Omit<PlanRequest, 'type'>, signal: AbortSignal): Promise<PlanFindings>
  /** Ends what runs and refuses more. */
  stop(): void
}

const WAITING = { what: 'plans', mostWaiting: 32, mostOfOneKey: 4 }
const DEFAULT_STUCK_MS = 10 * 60_000
/** Without any sign of life. */
const FROZEN_MS = 60_000
/** Of V8; rows of a call are some bytes per token, so this is some hundred million tokens. */
const MAX_HEAP_MB = 2048

export function createPlanner({ environment, stuckMs = DEFAULT_STUCK_MS }: PlannerOptions): Planner {
  let running: ChildProcess | null = null
  let isStopped = false
  const turns = createTurns(WAITING)

  async function run(request: Omit<PlanRequest, 'type'>, signal: AbortSignal): Promise<PlanFindings> {
    if (isStopped) throw new AppError('unavailable', 'shutting_down', 'the server is shutting down')
    if (signal.aborted) throw clientClosed()
    const child = fork(builtModule('training/worker/plan/main.js'), [], {
      execArgv: [...dieWithParentFlags(), `--max-old-space-size=${MAX_HEAP_MB}`],
      stdio: CHILD_STDIO,
      // as of the worker whose time is predicted
      env: withHugePages(environment),
    })
    releaseLifeline(child)
    running = child
    stepBack(child)
    try {
      return await answerOf(child, request, { signal, stuckMs })
    } finally {
      child.kill('SIGKILL')
      running = null
    }
  }

  return {
    plan: (key, request, signal) =>
      turns
        .take(key, signal, () => run(request, signal))
        .catch((error: unknown) => {
          throw signal.aborted ? clientClosed() : error
        }),
    stop: () => {
      isStopped = true
      running?.kill('SIGKILL')
    },
  }
}

function answerOf(
  child: ChildProcess,
  request: Omit<PlanRequest, 'type'>,
  { signal, stuckMs }: { readonly signal: AbortSignal; readonly stuckMs: number },
): Promise<PlanFindings> {
  return new Promise((resolve, reject) => {
    const watchdog = createWatchdog(child.pid ?? 0, {
      frozenMs: FROZEN_MS,
      stuckMs,
      tickMs: Math.min(1000, stuckMs),
      isWaitedFor: () => true,
      // it reports by itself while it gets on
      ping: () => undefined,
      onFrozen: (reason) => finish(() => reject(tooLarge(reason))),
    })
    const onAbort = (): void => finish(() => reject(clientClosed()))
    function finish(settle: () => void): void {
      watchdog.stop()
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    child.on('message', (reply: PlanReply) => {
      if (reply.type === 'progress') return watchdog.heard()
      finish(() => (reply.type === 'planned' ? resolve(reply.findings) : reject(fromErrorMessage(reply.error))))
    })
    child.on('error', (cause) => finish(() => reject(planDied('could not be started', cause))))
    child.once('exit', (code, killedBy) => {
      // V8 ends a process whose heap is full in this way
      if (code === 134 || killedBy === 'SIGABRT')
        finish(() => reject(tooLarge('needed more memory than a plan may take')))
      else finish(() => reject(planDied(killedBy === null ? `exited with code ${code}` : `was killed by ${killedBy}`)))
    })
    child.send({ type: 'plan', ...request } satisfies PlanRequest, () => undefined)
  })
}

function tooLarge(what: string): AppError {
  return new AppError('invalid_request', 'plan_too_large', `the plan ${what}`, {
    hint: 'plan a part of the data, or submit the job: its first event has the same figures',
  })
}

function clientClosed(): AppError {
  return new AppError('cancelled', 'client_closed', 'the client closed the connection before its plan was made')
}

function planDied(how: string, cause?: unknown): AppError {
  return new AppError('internal', 'plan_failed', `the process that planned ${how}`, {
    hint: 'ask again; the server log says more',
    cause,
  })
}
