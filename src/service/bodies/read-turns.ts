/**
 * Limits how many parts of request bodies are read in one round of the event loop, and lets keys take turns.
 *
 * A burst of large bodies has data ready on every connection at once. Without a limit one round over all of them takes
 * half a second, in which no stream is written. TCP holds back a connection that waits for its turn. A key with two
 * hundred connections gets as many turns as a key with one.
 */

export interface ReadTurns {
  /** Resolves when one more part may be read; at once in effect while few bodies arrive. @param key whose body it is */
  next(key: string): Promise<void>
}

/** @param perRound parts read between two rounds of the event loop */
export function createReadTurns(perRound: number): ReadTurns {
  /** Keys in the order of their turns; each has at least one that waits. */
  const waiting = new Map<string, (() => void)[]>()
  let isScheduled = false

  function schedule(): void {
    isScheduled = waiting.size > 0
    if (isScheduled) setImmediate(round)
  }

  function round(): void {
    for (let left = perRound; left > 0; left--) {
      const [entry] = waiting
      if (entry === undefined) break
      const [key, queue] = entry
      const resolve = queue.shift()
      waiting.delete(key)
      // behind the other keys
      if (queue.length > 0) waiting.set(key, queue)
      resolve?.()
    }
    schedule()
  }

  return {
    next: (key) =>
      new Promise((resolve) => {
        const queue = waiting.get(key)
        if (queue === undefined) waiting.set(key, [resolve])
        else queue.push(resolve)
        if (!isScheduled) schedule()
      }),
  }
}
