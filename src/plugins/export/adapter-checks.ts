/**
 * Checks of adapters that workers of other machines made, each in an export process.
 *
 * A process takes 300 ms to start and 5 to check a small adapter, and loops of small jobs have one each: it is kept for the next
 * adapter of the same entity, for some seconds and some checks. One that has refused anything ends: it has read a stranger's.
 */
import { type AppError, shuttingDown } from '#base/errors/errors.js'
import { askProcess } from '#base/processes/ask-process.js'
import { startChild } from '#base/processes/child.js'
import { createTurns } from '#base/util/turns.js'
import type { CheckRequest, ExportReply } from './requests.js'

export interface AdapterChecks {
  /**
   * @param key whose adapter it is: keys take turns
   * @throws {AppError} what is wrong with it
   */
  check(key: string, request: Omit<CheckRequest, 'type'>): Promise<void>
  /** Processes that wait for the next adapter. */
  keptPids(): readonly number[]
  /** Ends what runs and refuses more. */
  stop(): void
}

/** Each is the end of a job, which is not done again for a full queue. */
const TURNS = { what: 'adapters to check', mostWaiting: 4096, mostOfOneKey: 2048, atOnce: 1, spare: 1 }
/** A check reads what an adapter may have, some seconds of it. */
const LIMIT_MS = 10 * 60_000
const KEPT_MS = 30_000
/** A process of some 60 MB each. */
const MOST_KEPT = 4
const MOST_CHECKS = 100

interface Checker {
  readonly child: ReturnType<typeof startChild>
  checks: number
  idle?: NodeJS.Timeout
}

/** @param options.died the error of a process that ended by itself */
export function createAdapterChecks(options: {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly died: (how: string, cause?: unknown) => AppError
  readonly keptMs?: number
}): AdapterChecks {
  const { environment, died, keptMs = KEPT_MS } = options
  const turns = createTurns(TURNS)
  const running = new Set<ReturnType<typeof startChild>>()
  /** By whose adapters they have read, in the order of their last use. */
  const kept = new Map<string, Checker>()
  const never = new AbortController().signal
  let isStopped = false

  function start(): Checker {
    const child = startChild('plugins/export/main.js', { environment, needs: ['computing'], isBehind: true })
    running.add(child)
    child.once('close', () => running.delete(child))
    return { child, checks: 0 }
  }

  function take(key: string): Checker {
    const checker = kept.get(key)
    kept.delete(key)
    clearTimeout(checker?.idle)
    return checker !== undefined && running.has(checker.child) && checker.child.connected ? checker : start()
  }

  function keep(key: string, checker: Checker): void {
    if (isStopped || checker.checks >= MOST_CHECKS) {
      end(checker)
      return
    }
    const drop = (): void => {
      if (kept.get(key) === checker) kept.delete(key)
      end(checker)
    }
    checker.idle = setTimeout(drop, keptMs).unref()
    kept.set(key, checker)
    const [oldest] = kept
    if (kept.size <= MOST_KEPT || oldest === undefined) return
    clearTimeout(oldest[1].idle)
    kept.delete(oldest[0])
    end(oldest[1])
  }

  function end({ child }: Checker): void {
    child.kill('SIGKILL')
  }

  async function run(key: string, request: Omit<CheckRequest, 'type'>): Promise<void> {
    if (isStopped) throw shuttingDown()
    const checker = take(key)
    const { answer, leave } = askProcess<ExportReply>(checker.child, { type: 'check', ...request }, { died })
    const timer = setTimeout(() => end(checker), LIMIT_MS)
    try {
      if ((await answer).type !== 'checked') throw died('answered something else')
      checker.checks += 1
      keep(key, checker)
    } catch (error) {
      end(checker)
      throw error
    } finally {
      clearTimeout(timer)
      leave()
    }
  }

  return {
    check: (key, request) => turns.take(key, never, () => run(key, request)),
    keptPids: () => [...kept.values()].flatMap(({ child }) => child.pid ?? []),
    stop: () => {
      isStopped = true
      for (const child of running) child.kill('SIGKILL')
    },
  }
}
