/**
 * Plans of training jobs: one short-lived process each, which runs the job's own code up to its first step. And the rendering of a new
 * job's first rows, in a process of its own that loads no weights: it has turns beside the plans, and takes no place that is not free.
 *
 * One at a time, and keys take turns: a plan tokenizes all rows and measures the machine, and two at once would falsify
 * the measurement. There is no fixed time limit, because the machine may be busy: a process is given up when it shows
 * no sign of life or reports no progress, and its heap limit bounds its work. A client that goes away ends its plan.
 */
import type { ChildProcess } from 'node:child_process'
import { AppError, shuttingDown } from '#base/errors/errors.js'
import { askProcess } from '#base/processes/ask-process.js'
import { startChild } from '#base/processes/child.js'
import { withHugePages } from '#base/processes/malloc-tunables.js'
import { createWatchdog } from '#base/processes/watchdog.js'
import { createDeferred } from '#base/util/deferred.js'
import { createTurns } from '#base/util/turns.js'
import type { PlanRequest } from '#contract/processes/plan.js'
import type { RowCheckAnswer, RowCheckRequest } from '#contract/processes/row-check.js'
import type { PlanFindings } from '#contract/wire/training/plan.js'

export interface PlannerOptions {
  /** Of the processes. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Variables that they are given beside it: what trains, and with how many threads. */
  readonly given?: Readonly<Record<string, string | undefined>>
  /** A plan that computes for so long without getting on is given up; default ten minutes. */
  readonly stuckMs?: number
}

export interface Planner {
  /**
   * @param key whose plan it is: keys take turns
   * @param signal of the client; aborted, the plan ends
   * @throws {AppError} what is wrong with the job's data; `queue_full`, `plan_too_large`, `plan_failed`, `client_closed`
   */
  plan(key: string, request: PlanRequest, signal: AbortSignal): Promise<PlanFindings>
  /**
   * Renders the first rows of a job. Where that cannot be done, or too many wait for it, nothing is said: the job looks at all rows.
   *
   * @returns what the job will leave out, as sentences
   * @throws {AppError} `unrenderable_example`, `unread_template_kwarg`: what the job would end with
   */
  checkRows(key: string, request: RowCheckRequest): Promise<readonly string[]>
  /** Ends what runs and refuses more. */
  stop(): void
}

const WAITING = { what: 'plans', mostWaiting: 32, mostOfOneKey: 4 }
/** Who finds no place goes on without. */
const CHECKS_WAITING = { what: 'checks of rows', mostWaiting: 16, mostOfOneKey: 4, atOnce: 1, spare: 1 }
/** A check looks at a fixed part of a file, which takes a second. */
const CHECK_LIMIT_MS = 60_000
const CHECK_HEAP_MB = 1024
/** What rows, and what is said of their template, can be refused for once they were read. */
const REFUSALS = ['unrenderable_example', 'unread_template_kwarg']
const DEFAULT_STUCK_MS = 10 * 60_000
/** Without any sign of life. */
const FROZEN_MS = 60_000
/** Of V8; rows of a call are some bytes per token, so this is some hundred million tokens. */
const MAX_HEAP_MB = 2048

export function createPlanner({ environment, given = {}, stuckMs = DEFAULT_STUCK_MS }: PlannerOptions): Planner {
  let running: ChildProcess | null = null
  let isStopped = false
  const turns = createTurns(WAITING)
  const checkTurns = createTurns(CHECKS_WAITING)
  const checking = new Set<ChildProcess>()
  const never = new AbortController().signal

  async function check(request: RowCheckRequest): Promise<readonly string[]> {
    if (isStopped) return []
    const child = startChild('training/worker/plan/check-rows.js', {
      environment,
      flags: [`--max-old-space-size=${CHECK_HEAP_MB}`],
      isBehind: true,
    })
    checking.add(child)
    const timer = setTimeout(() => child.kill('SIGKILL'), CHECK_LIMIT_MS)
    try {
      return (await askProcess<RowCheckAnswer>(child, request, { died: planDied }).answer).warnings
    } finally {
      clearTimeout(timer)
      child.kill('SIGKILL')
      checking.delete(child)
    }
  }

  async function run(request: PlanRequest, signal: AbortSignal): Promise<PlanFindings> {
    if (isStopped) throw shuttingDown()
    if (signal.aborted) throw clientClosed()
    const child = startChild('training/worker/plan/main.js', {
      // as of the worker whose time is predicted
      environment: withHugePages(environment),
      needs: ['computing', 'python'],
      given,
      flags: [`--max-old-space-size=${MAX_HEAP_MB}`],
      isBehind: true,
    })
    running = child
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
    checkRows: async (key, request) => {
      try {
        return await checkTurns.take(key, never, () => check(request))
      } catch (error) {
        if (error instanceof AppError && REFUSALS.includes(error.code)) throw error
        return []
      }
    },
    stop: () => {
      isStopped = true
      running?.kill('SIGKILL')
      for (const child of checking) child.kill('SIGKILL')
    },
  }
}

async function answerOf(
  child: ChildProcess,
  request: PlanRequest,
  { signal, stuckMs }: { readonly signal: AbortSignal; readonly stuckMs: number },
): Promise<PlanFindings> {
  const givenUp = createDeferred<never>()
  const watchdog = createWatchdog(child.pid ?? 0, {
    frozenMs: FROZEN_MS,
    stuckMs,
    tickMs: Math.min(1000, stuckMs),
    isWaitedFor: () => true,
    // it reports by itself while it gets on
    ping: () => undefined,
    onFrozen: (reason) => givenUp.reject(tooLarge(reason)),
  })
  const onAbort = (): void => givenUp.reject(clientClosed())
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const { answer } = askProcess<PlanFindings>(child, request, { onProgress: watchdog.heard, died: planDied })
    return await Promise.race([answer, givenUp.promise])
  } finally {
    watchdog.stop()
    signal.removeEventListener('abort', onAbort)
  }
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
  // V8 ends a process whose heap is full in this way
  if (/ code 134$| SIGABRT$/.test(how)) return tooLarge('needed more memory than a plan may take')
  return new AppError('internal', 'plan_failed', `the process that planned ${how}`, {
    hint: 'ask again; the server log says more',
    cause,
  })
}
