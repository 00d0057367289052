/**
 * How many episodes a server plays at once, as far as it has said: whoever comes later waits for a seat.
 */
export interface Capacity {
  readonly active: number
  readonly most: number
}

export function createSeats() {
  let [most, taken] = [Number.POSITIVE_INFINITY, 0]
  const waiting: (() => void)[] = []

  function leave(): void {
    taken -= 1
    while (taken < most && waiting.length > 0) {
      taken += 1
      waiting.shift()?.()
    }
  }

  async function enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (taken < most) {
      taken += 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const go = (): void => {
        signal.removeEventListener('abort', abort)
        resolve()
      }
      const abort = (): void => {
        const at = waiting.indexOf(go)
        if (at >= 0) waiting.splice(at, 1)
        reject(signal.reason)
      }
      signal.addEventListener('abort', abort, { once: true })
      waiting.push(go)
    })
  }

  return {
    most: () => (Number.isFinite(most) ? most : null),
    /** Those that are in keep their seats. */
    limit(capacity: Capacity): void {
      most = Math.max(1, Math.min(most, capacity.most))
    },
    async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      await enter(signal)
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
