/**
 * Text columns → values: a word of a closed list, a JSON object, numbers by name. What a row should never hold is an error
 * that names it, not a silent default. And free text → what every database stores.
 */
import { StorageError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'

/**
 * The word a column holds.
 *
 * @param what what the column says, for the error: `status of a training job`
 * @throws {StorageError} `invalid_row`
 */
export function readOneOf<Word extends string>(words: readonly Word[], text: string, what: string): Word {
  const word = words.find((known) => known === text)
  if (word !== undefined) return word
  throw new StorageError('invalid_row', `${what} must be one of ${words.join(', ')}, got "${text.slice(0, 100)}"`)
}

/** @throws {StorageError} `invalid_row` */
export function readObject(text: string, what: string): JsonObject {
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new StorageError('invalid_row', `${what} must be a JSON object`)
  }
  return value as JsonObject
}

/** Numbers by name; other values are left out. @throws {StorageError} `invalid_row` */
export function readNumbers(text: string, what: string): Record<string, number> {
  const entries = Object.entries(readObject(text, what))
  return Object.fromEntries(entries.filter((entry): entry is [string, number] => typeof entry[1] === 'number'))
}

/**
 * Text that no client chose for a row (what a model said, why something failed, which may quote anything): with the replacement character in place of U+0000,
 * which PostgreSQL refuses, so that an end is stored whatever it says. What a client names is refused instead.
 */
export function storableText<Text extends string | null>(text: Text): Text {
  return (text?.includes('\0') ? text.replaceAll('\0', '\ufffd') : text) as Text
}
