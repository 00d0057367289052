/**
 * Bridges callbacks to `for await`: pushed values are kept in order until they are read.
 */

/** One reader, any number of writers. */
export interface AsyncQueue<T> extends AsyncIterable<T> {
  push(value: T): void
  /** No more values; the reader ends once it has read the pending ones. */
  end(): void
  /** No more values; the reader throws once it has read the pending ones. */
  fail(error: unknown): void
}

/** @param onReturn called when the reader stops early, for example with `break` */
export function createAsyncQueue<T>(onReturn?: () => void): AsyncQueue<T> {
  const values: T[] = []
  let isEnded = false
  let failure: { readonly error: unknown } | null = null
  let wake: (() => void) | null = null

  function stir(): void {
    wake?.()
    wake = null
  }

  async function next(): Promise<IteratorResult<T, undefined>> {
    for (;;) {
      const value = values.shift()
      if (value !== undefined) return { done: false, value }
      if (failure !== null) throw failure.error
      if (isEnded) return { done: true, value: undefined }
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }

  return {
    push: (value) => {
      if (isEnded || failure !== null) return
      values.push(value)
      stir()
    },
    end: () => {
      isEnded = true
      stir()
    },
    fail: (error) => {
      if (isEnded || failure !== null) return
      failure = { error }
      stir()
    },
    [Symbol.asyncIterator]: () => ({
      next,
      return: async () => {
        isEnded = true
        onReturn?.()
        return { done: true, value: undefined }
      },
    }),
  }
}
