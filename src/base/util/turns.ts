/**
 * A few tasks at a time, and whoever waits takes turns by key: many tasks of one key hold up another's by one task at most.
 */
import { AppError } from '#base/errors/errors.js'

export interface Turns {
  /**
   * Runs a task when it is its turn; one whose client has gone loses its place.
   *
   * @param key whose task it is
   * @throws {AppError} `queue_full` when too many wait already, of this key or of all
   */
  take<T>(key: string, signal: AbortSignal, task: () => Promise<T>): Promise<T>
}

export interface TurnLimits {
  /** What waits, in the plural, for messages. */
  readonly what: string
  readonly mostWaiting: number
  readonly mostOfOneKey: number
  /** Tasks that run side by side; default 1. */
  readonly atOnce?: number
  /** Places beside those for keys of which nothing runs; default 0. */
  readonly spare?: number
}

/** What somebody is told whose key waits for too much already. */
export function tooManyWaiting(message: string): AppError {
  return new AppError('rate_limited', 'queue_full', message, {
    hint: 'ask again later',
    details: { retry_after_seconds: 30 },
  })
}

export function createTurns({ what, mostWaiting, mostOfOneKey, atOnce = 1, spare = 0 }: TurnLimits): Turns {
  /** Keys in the order of their turns; each has at least one that waits. */
  const waiting = new Map<string, (() => void)[]>()
  /** How many tasks of a key run. */
  const running = new Map<string, number>()
  let count = 0

  const mayStart = (key: string): boolean => count < (running.has(key) ? atOnce : atOnce + spare)

  function assertPlace(key: string): void {
    const all = [...waiting.values()].reduce((sum, { length }) => sum + length, 0)
    const own = waiting.get(key)?.length ?? 0
    if (own < mostOfOneKey && all < mostWaiting) return
    throw tooManyWaiting(own < mostOfOneKey ? `${all} ${what} wait already` : `${own} ${what} of this key wait already`)
  }

  function waitForTurn(key: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        const left = waiting.get(key)?.filter((other) => other !== start) ?? []
        if (left.length > 0) waiting.set(key, left)
        else waiting.delete(key)
        reject(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      waiting.set(key, [...(waiting.get(key) ?? []), start])
    })
  }

  function begin(key: string): void {
    count++
    running.set(key, (running.get(key) ?? 0) + 1)
  }

  function end(key: string): void {
    count--
    const left = (running.get(key) ?? 1) - 1
    if (left > 0) running.set(key, left)
    else running.delete(key)
    startNext()
  }

  const nextKey = (): string | undefined => [...waiting.keys()].find(mayStart)

  function startNext(): void {
    // one end makes one place, and may let another key of which nothing runs any more begin in a spare one
    for (let key = nextKey(); key !== undefined; key = nextKey()) {
      const [start, ...others] = waiting.get(key) ?? []
      waiting.delete(key)
      // behind the other keys
      if (others.length > 0) waiting.set(key, others)
      begin(key)
      start?.()
    }
  }

  return {
    take: async (key, signal, task) => {
      signal.throwIfAborted()
      if (mayStart(key)) begin(key)
      else {
        assertPlace(key)
        await waitForTurn(key, signal)
      }
      try {
        return await task()
      } finally {
        end(key)
      }
    },
  }
}
