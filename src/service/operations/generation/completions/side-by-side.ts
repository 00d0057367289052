/**
 * Several event streams read as one: the prompts of a request, some at a time, so that one request of a thousand prompts does
 * not fill the engine's queue.
 */

export interface NumberedEvent<T> {
  /** Which of the streams. */
  readonly index: number
  readonly event: T
}

/**
 * Reads the streams side by side, `atOnce` of them open, each opened when one before it has ended. An error of one ends all;
 * leaving early ends those that are open.
 *
 * @param onEnd called first when no more is read: makes streams end that are waited for
 */
export async function* sideBySide<T>(
  open: readonly (() => AsyncIterator<T>)[],
  { atOnce, onEnd }: { readonly atOnce: number; readonly onEnd: () => void },
): AsyncGenerator<NumberedEvent<T>> {
  const iterators = new Map<number, AsyncIterator<T>>()
  const reading = new Map<number, Promise<{ readonly index: number; readonly next: IteratorResult<T> }>>()
  let opened = 0

  function read(index: number, iterator: AsyncIterator<T>): void {
    reading.set(
      index,
      iterator.next().then((next) => ({ index, next })),
    )
  }

  function openNext(): void {
    const start = open[opened]
    if (start === undefined) return
    const iterator = start()
    iterators.set(opened, iterator)
    read(opened, iterator)
    opened++
  }

  try {
    while (opened < Math.min(atOnce, open.length)) openNext()
    while (reading.size > 0) {
      const { index, next } = await Promise.race(reading.values())
      const iterator = iterators.get(index)
      if (next.done === true || iterator === undefined) {
        reading.delete(index)
        iterators.delete(index)
        openNext()
        continue
      }
      read(index, iterator)
      yield { index, event: next.value }
    }
  } finally {
    onEnd()
    for (const pending of reading.values()) pending.catch(() => undefined)
    await Promise.all([...iterators.values()].map((iterator) => iterator.return?.()))
  }
}
