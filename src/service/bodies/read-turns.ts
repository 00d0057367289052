/**
 * Turns of bodies that arrive: so many parts of all of them together between two looks at everything else.
 *
 * A burst of large bodies has data ready on every connection at once; read as it comes, one round over all of them takes half a second
 * in which no stream is written. A connection that waits for its turn is held back by TCP.
 */

export interface ReadTurns {
  /** Resolves when one more part may be read; at once in effect while few bodies arrive. */
  next(): Promise<void>
}

/** @param perRound parts read between two rounds of the event loop */
export function createReadTurns(perRound: number): ReadTurns {
  const waiting: (() => void)[] = []
  let isScheduled = false

  function schedule(): void {
    isScheduled = waiting.length > 0
    if (isScheduled) setImmediate(round)
  }

  function round(): void {
    for (const resolve of waiting.splice(0, perRound)) resolve()
    schedule()
  }

  return {
    next: () =>
      new Promise((resolve) => {
        waiting.push(resolve)
        if (!isScheduled) schedule()
      }),
  }
}
