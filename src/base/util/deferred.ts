/**
 * A promise together with the functions that settle it. (`Promise.withResolvers` needs Node 22.)
 */

export interface Deferred<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(error: unknown): void
}

/** @example const { promise, resolve } = createDeferred<number>() */
export function createDeferred<T>(): Deferred<T> {
  let settle: { resolve: (value: T) => void; reject: (error: unknown) => void } | null = null
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject }
  })
  return {
    promise,
    resolve: (value) => settle?.resolve(value),
    reject: (error) => settle?.reject(error),
  }
}
