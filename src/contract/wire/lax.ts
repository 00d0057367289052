/**
 * Scalars read the way the upstream API reads them: pydantic's lax mode, where `"true"` is a boolean and `"5"` or `5.0` an integer.
 *
 * Each failure carries the pydantic error type (`int_parsing`, `greater_than_equal` …) in `params.type`, because clients
 * match on it; `contract/wire/errors.ts` turns issues into the published `{detail: [{loc, msg, type}]}`.
 * Source: pydantic 2 conversion table (lax mode, JSON input), error catalogue of pydantic-core 2.
 */
import { z } from 'zod'

/** Bounds of a number, both inclusive. */
export interface Range {
  readonly min?: number
  readonly max?: number
}

const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n
const TRUE_TEXTS = new Set(['1', 'on', 't', 'true', 'y', 'yes'])
const FALSE_TEXTS = new Set(['0', 'off', 'f', 'false', 'n', 'no'])
const INTEGER_TEXT = /^\s*[+-]?\d+(_\d+)*(\.0*)?\s*$/
// no digit can be read in two ways: with `\d+\.?\d*` the text of a number took the square of its length
const NUMBER_TEXT = /^\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*$/i
/** Longest text of a number that is read. */
const MAX_NUMBER_TEXT = 256

type Problem = readonly [type: string, message: string]

/** A boolean: true, false, 0, 1 or their usual texts. */
export function laxBoolean() {
  return z
    .unknown()
    .meta({ type: 'boolean' })
    .transform((value, context) => settle(readBoolean(value), context))
}

/** A safe integer inside `range`: an integer, a float with no fraction, or either as text. */
export function laxInteger(range: Range = {}) {
  return described('integer', range).transform((value, context) => {
    const integer = readInteger(value)
    if (typeof integer !== 'bigint') return settle<number>(integer, context)
    const number = Number(integer)
    const problem = outOfRange(number, range)
    if (problem !== null) return settle<number>(problem, context)
    if (!Number.isSafeInteger(number)) {
      return settle<number>(['int_parsing_size', 'Input should be an integer that fits in 53 bits'], context)
    }
    return number
  })
}

/** A signed 64-bit integer without loss of digits; the JSON reader hands integers beyond 2^53 over as `bigint`. */
export function laxInt64(range: { readonly min?: bigint; readonly max?: bigint } = {}) {
  const min = range.min ?? INT64_MIN
  const max = range.max ?? INT64_MAX
  return described('integer', { min: Number(min), max: Number(max) }).transform((value, context) => {
    const integer = readInteger(value)
    if (typeof integer !== 'bigint') return settle<bigint>(integer, context)
    if (integer < min) {
      return settle<bigint>(['greater_than_equal', `Input should be greater than or equal to ${min}`], context)
    }
    if (integer > max) {
      return settle<bigint>(['less_than_equal', `Input should be less than or equal to ${max}`], context)
    }
    return integer
  })
}

/** A finite number inside `range`, or its text. */
export function laxNumber(range: Range = {}) {
  return described('number', range).transform((value, context) => {
    const number = readNumber(value)
    if (typeof number !== 'number') return settle<number>(number, context)
    const problem = outOfRange(number, range)
    return problem === null ? number : settle<number>(problem, context)
  })
}

/** What JSON Schema says of it: the number itself; its text is taken too, and told in the description of the API. */
function described(type: 'integer' | 'number', { min, max }: Range) {
  return z
    .unknown()
    .meta({ type, ...(min === undefined ? {} : { minimum: min }), ...(max === undefined ? {} : { maximum: max }) })
}

function settle<T>(result: T | Problem, context: z.RefinementCtx): T {
  if (!Array.isArray(result)) return result as T
  context.addIssue({ code: 'custom', message: String(result[1]), params: { type: String(result[0]) } })
  return z.NEVER
}

function readBoolean(value: unknown): boolean | Problem {
  if (typeof value === 'boolean') return value
  if (value === 1 || value === 0) return value === 1
  if (typeof value === 'string') {
    const text = value.toLowerCase()
    if (TRUE_TEXTS.has(text)) return true
    if (FALSE_TEXTS.has(text)) return false
  }
  if (typeof value === 'string' || typeof value === 'number') {
    return ['bool_parsing', 'Input should be a valid boolean, unable to interpret input']
  }
  return ['bool_type', 'Input should be a valid boolean']
}

function readInteger(value: unknown): bigint | Problem {
  if (typeof value === 'bigint') return value
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) return ['finite_number', 'Input should be a finite number']
    if (!Number.isInteger(value)) {
      return ['int_from_float', 'Input should be a valid integer, got a number with a fractional part']
    }
    return BigInt(value)
  }
  if (typeof value === 'string') {
    if (value.length > 64 || !INTEGER_TEXT.test(value)) {
      return ['int_parsing', 'Input should be a valid integer, unable to parse string as an integer']
    }
    return BigInt(value.trim().replace(/\.0*$/, '').replaceAll('_', '').replace(/^\+/, ''))
  }
  return ['int_type', 'Input should be a valid integer']
}

function readNumber(value: unknown): number | Problem {
  if (typeof value === 'bigint') return Number(value)
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value === 'string') {
    if (value.length > MAX_NUMBER_TEXT || !NUMBER_TEXT.test(value)) {
      return ['float_parsing', 'Input should be a valid number, unable to parse string as a number']
    }
    return finite(Number(value))
  }
  if (typeof value === 'number') return finite(value)
  return ['float_type', 'Input should be a valid number']
}

function finite(value: number): number | Problem {
  return Number.isFinite(value) ? value : ['finite_number', 'Input should be a finite number']
}

function outOfRange(value: number, range: Range): Problem | null {
  if (range.min !== undefined && value < range.min) {
    return ['greater_than_equal', `Input should be greater than or equal to ${range.min}`]
  }
  if (range.max !== undefined && value > range.max) {
    return ['less_than_equal', `Input should be less than or equal to ${range.max}`]
  }
  return null
}
