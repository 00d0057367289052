/**
 * Tests of Jinja, `value is name(argument)`. @huggingface/jinja knows no arguments, takes mappings and tuples for nothing that can be
 * looped over, and does not have them all.
 */

import { textOf } from './python-values.js'
import { claimSearch } from './render-meter.js'
import { compare, entriesOf, field, isEqual, isMissing, itemsOf, numberOf, stringOf, typeOf } from './runtime-values.js'

type Test = (value: unknown, argument: unknown) => boolean

const isNumber = (value: unknown): boolean => numberOf(value) !== null
const isInteger = (value: unknown): boolean => typeOf(value) === 'IntegerValue'
const isBoolean = (value: unknown): boolean => typeOf(value) === 'BooleanValue'
const isMapping = (value: unknown): boolean => typeOf(value) !== 'NamespaceValue' && entriesOf(value) !== null
const isSequence = (value: unknown): boolean =>
  stringOf(value) !== null || itemsOf(value) !== null || isMapping(value) || isMissing(value)

/** Python's remainder has the sign of the divisor. */
export const remainder = (a: number, b: number): number => a - b * Math.floor(a / b)

function remainderOf(value: unknown, divisor: number): number {
  const number = numberOf(value)
  if (number === null) throw new Error(`${typeOf(value)} is no number`)
  return typeof number === 'bigint' ? Number(number % BigInt(divisor)) : remainder(number, divisor)
}

export function contains(list: unknown, item: unknown): boolean {
  if (isMissing(list)) return false
  const items = itemsOf(list)
  if (items !== null) return items.some((one) => isEqual(one, item))
  const [text, part] = [stringOf(list), stringOf(item)]
  if (text !== null && part !== null) {
    claimSearch(text, part)
    return text.includes(part)
  }
  // an undefined value is no key: what the interpreter takes for one would be refused
  const entries = entriesOf(list)
  if (entries !== null) return (part !== null && entries.has(part)) || hasOtherKey(entries, item)
  throw new Error(`${typeOf(item)} in ${typeOf(list)} cannot be asked`)
}

function hasOtherKey(entries: ReadonlyMap<string, unknown>, item: unknown): boolean {
  const number = numberOf(item)
  return (
    (number !== null && entries.has(`\u0000${number}`)) || (typeOf(item) === 'NullValue' && entries.has('\u0000None'))
  )
}

const letters = (value: unknown): string => textOf(value).replace(/[^\p{L}]/gu, '')

export const tests: Readonly<Record<string, Test>> = {
  defined: (value) => !isMissing(value),
  undefined: isMissing,
  none: (value) => typeOf(value) === 'NullValue',
  true: (value) => isBoolean(value) && field(value, 'value') === true,
  false: (value) => isBoolean(value) && field(value, 'value') === false,
  boolean: isBoolean,
  integer: isInteger,
  float: (value) => typeOf(value) === 'FloatValue',
  number: isNumber,
  string: (value) => stringOf(value) !== null,
  mapping: isMapping,
  sequence: isSequence,
  iterable: isSequence,
  callable: (value) => typeOf(value) === 'FunctionValue' || isMissing(value),
  odd: (value) => remainderOf(value, 2) === 1,
  even: (value) => remainderOf(value, 2) === 0,
  divisibleby: (value, divisor) => remainderOf(value, Number(numberOf(divisor))) === 0,
  lower: (value) => letters(value) !== '' && letters(value) === letters(value).toLowerCase(),
  upper: (value) => letters(value) !== '' && letters(value) === letters(value).toUpperCase(),
  in: (value, list) => contains(list, value),
  sameas: (value, other) => typeOf(value) === typeOf(other) && isEqual(value, other),
  eq: isEqual,
  ne: (value, other) => !isEqual(value, other),
  lt: (value, other) => compare(value, other) < 0,
  le: (value, other) => compare(value, other) <= 0,
  gt: (value, other) => compare(value, other) > 0,
  ge: (value, other) => compare(value, other) >= 0,
}

const otherNames: Readonly<Record<string, string>> = {
  ...{ equalto: 'eq', lessthan: 'lt', greaterthan: 'gt' },
  ...{ '==': 'eq', '!=': 'ne', '<': 'lt', '<=': 'le', '>': 'gt', '>=': 'ge' },
}

/** @throws {Error} `Unknown test` */
export function testOf(name: string): Test {
  const known = otherNames[name] ?? name
  const test = Object.hasOwn(tests, known) ? tests[known] : undefined
  if (test === undefined) throw new Error(`Unknown test: ${name}`)
  return test
}
