/**
 * Plans of training jobs: one short-lived process each, which runs the job's own code up to its first step.
 *
 * One at a time, a few wait their turn: a plan tokenizes all rows and measures the machine, which two at once would falsify. A
 * process has a limit of time and of heap; a client that goes away ends its plan.
 */
import { type ChildProcess, fork } from 'node:child_process'
import type { PlanFindings } from '#api/wire/training/plan.js'
import type { PlanReply, PlanRequest } from '#api/wire/training/plan-process.js'
import { AppError } from '#base/errors.js'
import { stepBack, toAppError } from './child.js'
import { builtModule, dieWithParentFlags } from './entry.js'
import { CHILD_STDIO, releaseLifeline } from './lifeline.js'

export interface PlannerOptions {
  /** Of the processes. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** A plan that is not done by then is given up; default ten minutes. */
  readonly limitMs?: number
}

export interface Planner {
  /**
   * @param signal of the client; aborted, the plan ends
   * @throws {AppError} what is wrong with the job's data; `queue_full`, `plan_too_large`, `client_closed`
   */
  plan(request: Omit<PlanRequest, 'type'>, signal: AbortSignal): Promise<PlanFindings>
  /** Ends what runs and refuses more. */
  stop(): void
}

const MOST_WAITING = 8
const DEFAULT_LIMIT_MS = 10 * 60_000
/** Of V8; rows of a call are some bytes per token, so this is some hundred million tokens. */
const MAX_HEAP_MB = 2048

export function createPlanner({ environment, limitMs = DEFAULT_LIMIT_MS }: PlannerOptions): Planner {
  let running: ChildProcess | null = null
  let isStopped = false
  let waitingCount = 0
  let last: Promise<unknown> = Promise.resolve()

  async function run(request: Omit<PlanRequest, 'type'>, signal: AbortSignal): Promise<PlanFindings> {
    if (isStopped) throw new AppError('unavailable', 'shutting_down', 'the server is shutting down')
    if (signal.aborted) throw clientClosed()
    const child = fork(builtModule('training/worker/plan/main.js'), [], {
      execArgv: [...dieWithParentFlags(), `--max-old-space-size=${MAX_HEAP_MB}`],
      stdio: CHILD_STDIO,
      env: { ...environment },
    })
    releaseLifeline(child)
    running = child
    stepBack(child)
    try {
      return await answerOf(child, request, { signal, limitMs })
    } finally {
      child.kill('SIGKILL')
      running = null
    }
  }

  return {
    plan: async (request, signal) => {
      if (waitingCount >= MOST_WAITING) {
        throw new AppError('rate_limited', 'queue_full', `${MOST_WAITING} plans wait already`, {
          hint: 'ask again later',
          details: { retry_after_seconds: 30 },
        })
      }
      waitingCount += 1
      const before = last
      const plan = before.then(() => {
        waitingCount -= 1
        return run(request, signal)
      })
      last = plan.catch(() => undefined)
      return plan
    },
    stop: () => {
      isStopped = true
      running?.kill('SIGKILL')
    },
  }
}

function answerOf(
  child: ChildProcess,
  request: Omit<PlanRequest, 'type'>,
  { signal, limitMs }: { readonly signal: AbortSignal; readonly limitMs: number },
): Promise<PlanFindings> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => finish(() => reject(tooLarge(`took longer than ${limitMs / 1000} seconds`))),
      limitMs,
    )
    const onAbort = (): void => finish(() => reject(clientClosed()))
    function finish(settle: () => void): void {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    child.on('message', (reply: PlanReply) => {
      finish(() => (reply.type === 'planned' ? resolve(reply.findings) : reject(toAppError(reply.error))))
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
