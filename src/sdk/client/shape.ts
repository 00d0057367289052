/**
 * What an answer must look like, as small checks that compose. Knows no endpoint and no schema library: that one costs every
 * command a third of a second, see `answers.ts` for what is checked.
 *
 * The compiler holds a check to the type it stands for: it may be more lenient, never stricter, and no field may be forgotten.
 */

/** Where an answer parts from what was expected. */
export interface Mismatch {
  /** `data[0].id`; empty for the answer as a whole. */
  readonly path: string
  readonly expected: string
  /** What is there instead, short enough for a sentence. */
  readonly given: string
}

/** Finds the first place where a value is no `T`. */
export interface Check<in T> {
  readonly find: (value: unknown, path: string) => Mismatch | null
  /** Never there: it makes a check of `string` no check of `string | null`. */
  readonly accepts?: (value: T) => void
}

export const text: Check<string> = simple('text', (value) => typeof value === 'string')
export const number: Check<number> = simple('a number', (value) => typeof value === 'number')
export const truth: Check<boolean> = simple('true or false', (value) => typeof value === 'boolean')
/** For what is passed on and not looked into. */
export const anything: Check<unknown> = { find: () => null }

/** Null and nothing are right too. */
export function maybe<T>(check: Check<T>): Check<T | null | undefined> {
  return { find: (value, path) => (value === null || value === undefined ? null : check.find(value, path)) }
}

/** Null is right too, nothing at all is not. */
export function nullOr<T>(check: Check<T>): Check<T | null> {
  return { find: (value, path) => (value === null ? null : check.find(value, path)) }
}

export function listOf<T>(item: Check<T>): Check<readonly T[]> {
  return {
    find(value, path) {
      if (!Array.isArray(value)) return { path, expected: 'a list', given: describe(value) }
      return first(value.map((each, i) => () => item.find(each, `${path}[${i}]`)))
    },
  }
}

/** Any names, values of one kind. */
export function mapOf<T>(item: Check<T>): Check<Readonly<Record<string, T>>> {
  return {
    find(value, path) {
      if (!isObject(value)) return { path, expected: 'an object', given: describe(value) }
      return first(
        Object.entries(value).map(
          ([key, each]) =>
            () =>
              item.find(each, join(path, key)),
        ),
      )
    },
  }
}

/** The fields of `T`; others are left alone, as newer servers have more. */
export function objectOf<T>(fields: { readonly [K in keyof Required<T>]: Check<T[K]> }): Check<T> {
  const checks = Object.entries<Pick<Check<never>, 'find'>>(fields)
  return {
    find(value, path) {
      if (!isObject(value)) return { path, expected: 'an object', given: describe(value) }
      return first(
        checks.map(
          ([key, check]) =>
            () =>
              check.find(value[key], join(path, key)),
        ),
      )
    },
  }
}

function simple<T>(expected: string, is: (value: unknown) => boolean): Check<T> {
  return { find: (value, path) => (is(value) ? null : { path, expected, given: describe(value) }) }
}

function first(tries: readonly (() => Mismatch | null)[]): Mismatch | null {
  for (const look of tries) {
    const found = look()
    if (found !== null) return found
  }
  return null
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  return `${typeof value === 'string' ? 'the text' : 'the value'} ${JSON.stringify(value).slice(0, 40)}`
}
