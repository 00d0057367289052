/**
 * Typed, bounded access to the numbers of a model's own description, whatever its format.
 *
 * A description is untrusted: each value is checked for type and range before it sizes anything.
 */
import { WeightsError } from '#base/errors/errors.js'

/** No decoder we serve has a size beyond this; a larger one is a lie or an overflow. */
const MAX_SIZE = 1 << 24

/** Reads values by key and throws `invalid_config` naming the key. */
export interface ConfigReader {
  /** A positive integer; `fallback` when the key is absent or null. */
  size(key: string, fallback?: number): number
  /** A finite number above zero; `fallback` when absent or null. */
  positive(key: string, fallback?: number): number
  flag(key: string, fallback: boolean): boolean
  text(key: string): string | null
  /** The raw value; null when absent. */
  raw(key: string): unknown
}

/**
 * @param lookUp returns a key's value, undefined or null when absent
 * @param what names the description in messages, for example `config.json`
 */
export function createConfigReader(lookUp: (key: string) => unknown, what: string): ConfigReader {
  function numeric(key: string, fallback: number | undefined): number {
    const value = lookUp(key) ?? fallback
    if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) {
      throw invalidConfig(what, key, value, 'a number above zero')
    }
    return value
  }
  return {
    size(key, fallback) {
      const value = numeric(key, fallback)
      if (!Number.isInteger(value) || value > MAX_SIZE) {
        throw invalidConfig(what, key, value, `an integer up to ${MAX_SIZE}`)
      }
      return value
    },
    positive: numeric,
    flag(key, fallback) {
      const value = lookUp(key) ?? fallback
      if (typeof value !== 'boolean') throw invalidConfig(what, key, value, 'true or false')
      return value
    },
    text(key) {
      const value = lookUp(key) ?? null
      if (value !== null && typeof value !== 'string') throw invalidConfig(what, key, value, 'a text')
      return value
    },
    raw: (key) => lookUp(key) ?? null,
  }
}

/** The error for a value that cannot be used. */
export function invalidConfig(what: string, key: string, value: unknown, expected: string): WeightsError {
  const shown = value === undefined ? 'nothing' : typeof value === 'bigint' ? String(value) : JSON.stringify(value)
  return new WeightsError('invalid_config', `${what} has "${key}" ${shown}, expected ${expected}`)
}

/** The error for a model that is well described but means something we do not compute. */
export function unsupportedModel(what: string, problem: string): WeightsError {
  return new WeightsError('unsupported_model', `${what} ${problem}`)
}
