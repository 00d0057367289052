/**
 * An object whose module is loaded by the first call of one of its methods, so that a process that starts does not wait for what
 * nobody may ask of it.
 */

type Call = (...given: never[]) => Promise<unknown> | AsyncIterable<unknown>
/** Names of the methods that answer bit by bit. */
type StreamsOf<T> = {
  [K in keyof T]: T[K] extends (...given: never[]) => AsyncIterable<unknown> ? K : never
}[keyof T]

/**
 * Every method waits until the object is there: what one that answers bit by bit refuses is refused by its first bit, and not by
 * the call. One that could not be loaded is tried again by the next call.
 *
 * @param streams names every method that answers bit by bit
 */
export function later<T extends { readonly [K in keyof T]: Call }>(
  load: () => Promise<T>,
  ...[streams]: [StreamsOf<T>] extends [never] ? [] : [streams: Readonly<Record<StreamsOf<T>, true>>]
): T {
  let loading: Promise<T> | null = null
  const loaded = async (): Promise<object> => {
    loading ??= load()
    try {
      return await loading
    } catch (error) {
      loading = null
      throw error
    }
  }
  const call = (object: object, name: string, given: readonly unknown[]): unknown =>
    Reflect.apply(Reflect.get(object, name), object, given)
  const methodOf = (name: string): unknown =>
    streams !== undefined && Object.hasOwn(streams, name)
      ? async function* stream(...given: unknown[]) {
          yield* call(await loaded(), name, given) as AsyncIterable<unknown>
        }
      : async (...given: unknown[]) => call(await loaded(), name, given)
  return new Proxy({} as T, {
    // what is awaited is asked for "then", and this is no promise
    get: (_, name) => (typeof name === 'symbol' || name === 'then' ? undefined : methodOf(name)),
  })
}
