/**
 * Reading untrusted JSON of tokenizer files: each function returns the typed value or names the field that is wrong.
 */
import { TokenizerError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { MAX_TOKENS } from './vocabulary/limits.js'

const wrong = (field: string, expected: string): TokenizerError =>
  new TokenizerError('invalid_tokenizer_file', `tokenizer field "${field}" must be ${expected}`)

/** @throws {TokenizerError} `invalid_tokenizer_file` unless the value is an object */
export function asObject(value: JsonValue | undefined, field: string): JsonObject {
  if (isJsonObject(value)) return value
  throw wrong(field, 'an object')
}

/** @throws {TokenizerError} `invalid_tokenizer_file` unless the value is a list */
export function asArray(value: JsonValue | undefined, field: string): readonly JsonValue[] {
  if (Array.isArray(value)) return value
  throw wrong(field, 'a list')
}

/** @throws {TokenizerError} `invalid_tokenizer_file` unless the value is a string */
export function asString(value: JsonValue | undefined, field: string): string {
  if (typeof value === 'string') return value
  throw wrong(field, 'a string')
}

/** @throws {TokenizerError} `invalid_tokenizer_file` unless the value is a number */
export function asNumber(value: JsonValue | undefined, field: string): number {
  if (typeof value === 'number') return value
  throw wrong(field, 'a number')
}

/** @throws {TokenizerError} `invalid_tokenizer_file` unless the value is a token id: an integer below `MAX_TOKENS` */
export function asTokenId(value: JsonValue | undefined, field: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < MAX_TOKENS) return value
  throw wrong(field, `an integer from 0 to ${MAX_TOKENS - 1}`)
}
