/**
 * One task at a time, and whoever waits takes turns by key: many tasks of one key hold up another's by one task at most.
 */
import { AppError } from '#base/errors.js'

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
}

export function createTurns({ what, mostWaiting, mostOfOneKey }: TurnLimits): Turns {
  /** Keys in the order of their turns; each has at least one that waits. */
  const waiting = new Map<string, (() => void)[]>()
  let isBusy = false

  function assertPlace(key: string): void {
    const count = [...waiting.values()].reduce((sum, { length }) => sum + length, 0)
    const own = waiting.get(key)?.length ?? 0
    if (own < mostOfOneKey && count < mostWaiting) return
    const message = own < mostOfOneKey ? `${count} ${what} wait already` : `${own} ${what} of this key wait already`
    throw new AppError('rate_limited', 'queue_full', message, {
      hint: 'ask again later',
      details: { retry_after_seconds: 30 },
    })
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

  function startNext(): void {
    const [first] = waiting
    if (first === undefined) {
      isBusy = false
      return
    }
    const [key, [start, ...others]] = first
    waiting.delete(key)
    // behind the other keys
    if (others.length > 0) waiting.set(key, others)
    start?.()
  }

  return {
    take: async (key, signal, task) => {
      signal.throwIfAborted()
      if (isBusy) {
        assertPlace(key)
        await waitForTurn(key, signal)
      }
      isBusy = true
      try {
        return await task()
      } finally {
        startNext()
      }
    },
  }
}
