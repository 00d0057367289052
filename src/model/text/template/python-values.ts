/**
 * Values as Python's Jinja prints them, where @huggingface/jinja 0.5.11 prints something else. Each fault, so that it can go upstream:
 *
 * - printed lists, tuples and mappings, also by `string`, are JSON; Python writes its own notation: `[1, 'a', None, True]`
 * - `tojson` writes `5.0` as `5`, `1e-7` as `1e-7` instead of `1e-07`, refuses tuples, and sorts keys by language
 * - `~` and `join` drop the `.0` of floats, refuse none, print lists without brackets, and `true` in lower case
 * - printed floats: `1e16` and `1e-5` are written out
 * - a number that comes with the data is a float only if it has a fraction, and has no more digits than a double
 *
 * Left as it is: an integer literal beyond 2^53 in a template's own text. Knows the shapes of the library's values, not their classes,
 * which it does not export.
 */
import { type ExactNumber, isExactNumber, textOfNumber, valueOfNumber } from '#base/json/exact-number.js'
import type { JsonValue } from '#base/util/json.js'
import { claimPrinted, claimText, printing } from './render-meter.js'
import { type Arguments, argument, field, looped, memberOf, spellingOfKey, type ValueMaker } from './runtime-values.js'
import { isWritten, textOfWritten, valueOfWritten } from './written-json.js'

type Make = new (value: unknown) => object

/** Of an integer that comes with the data. */
const MAX_DIGITS = 4300
/** What a unit of text becomes at most where it is escaped. */
const LONGEST_ESCAPE = 6

/** Runtime values of data: @param wrap the library's own conversion of plain values, from which its classes are known */
export function createRuntimeValues(wrap: (value: unknown) => unknown): (value: JsonValue) => unknown {
  const makeOf = (sample: unknown): Make => {
    const made = field(wrap(sample), 'constructor')
    if (typeof made !== 'function') throw new Error('unexpected template value')
    return made as Make
  }
  const [Text, Integer, Float, List, Mapping] = [makeOf(''), makeOf(1), makeOf(0.5), makeOf([]), makeOf({})]
  const exact = (number: ExactNumber): unknown => {
    const text = textOfNumber(number)
    if (/[.eE]/.test(text)) return new Float(valueOfNumber(number))
    // Python's own limit; reading them takes time that grows with their square
    if (text.length > MAX_DIGITS) throw new Error(`an integer has more than ${MAX_DIGITS} digits`)
    return new Integer(BigInt(text))
  }
  const convert = (value: JsonValue): unknown => {
    if (typeof value === 'string') return new Text(value)
    if (typeof value !== 'object' || value === null) return wrap(value)
    if (isExactNumber(value)) return exact(value)
    if (isWritten(value)) {
      const mapping = convert(valueOfWritten(value)) as object
      writtenTexts.set(mapping, textOfWritten(value))
      return mapping
    }
    if (Array.isArray(value)) return new List(value.map(convert))
    return new Mapping(new Map(Object.entries(value).map(([key, item]) => [key, convert(item)])))
  }
  return convert
}

/** Of values that came as JSON text which is to be printed as it was written. */
const writtenTexts = new WeakMap<object, string>()

/** The filters that make text of any value: `tojson`, `string`, `join`; undefined for other names. */
export function applyTextFilter(name: string, operand: unknown, args: Arguments, make: ValueMaker): unknown {
  if (name === 'string') return make.text(textOf(operand))
  if (name === 'tojson') {
    return make.text(printing(() => toJson(operand, optionsOf(args.positional, args.named))))
  }
  if (name !== 'join') return undefined
  const attribute = args.named.get('attribute') ?? args.positional[1]
  const items = looped(operand, make).map((item) => (attribute === undefined ? item : memberOf(item, attribute, make)))
  const separator = argument(args, 0, 'd') ?? args.named.get('separator')
  return make.text(joinedTexts(items, separator === undefined ? '' : textOf(separator)))
}

/** What `join` makes: each part is counted before the next is printed. */
function joinedTexts(items: readonly unknown[], separator: string): string {
  let length = 0
  const parts = items.map((item) => {
    const text = textOf(item)
    length += text.length + separator.length
    claimText(length)
    return text
  })
  return parts.join(separator)
}

/** Options of `json.dumps`, as the `tojson` of transformers has them: `ensure_ascii`, `indent`, `separators`, `sort_keys`. */
interface JsonOptions {
  readonly isAscii: boolean
  readonly isSorted: boolean
  readonly indent: string | null
  readonly separators: readonly [item: string, key: string]
}

const PLAIN: JsonOptions = { isAscii: false, isSorted: false, indent: null, separators: [', ', ': '] }

function optionsOf(positional: readonly unknown[], named: ReadonlyMap<string, unknown>): JsonOptions {
  if (positional.length === 0 && named.size === 0) return PLAIN
  const given = (name: string, at: number): unknown => field(named.get(name) ?? positional[at], 'value')
  const width = given('indent', 1)
  const pair = given('separators', 2)
  if (typeof width === 'number') claimText(width)
  const indent = typeof width === 'number' ? ' '.repeat(width) : typeof width === 'string' ? width : null
  const [item, key] = Array.isArray(pair) ? pair.map(textOf) : [indent === null ? ', ' : ',', ': ']
  if (item === undefined || key === undefined) throw new Error('separators must be a tuple of two strings')
  return {
    isAscii: given('ensure_ascii', 0) === true,
    isSorted: given('sort_keys', 3) === true,
    indent,
    separators: [item, key],
  }
}

function toJson(value: unknown, options: JsonOptions, depth = 0): string {
  const written = options === PLAIN && typeof value === 'object' && value !== null ? writtenTexts.get(value) : undefined
  if (written !== undefined) {
    claimPrinted(written.length)
    return written
  }
  claimPrinted(1)
  const inner = field(value, 'value')
  switch (field(value, 'type')) {
    case 'NullValue':
    case 'UndefinedValue':
      return 'null'
    case 'BooleanValue':
      return String(inner)
    case 'IntegerValue':
      return integerText(inner)
    case 'FloatValue':
      return floatText(Number(inner), { infinity: 'Infinity', nan: 'NaN' })
    case 'StringValue':
      return quoted(String(inner), options)
    case 'ArrayValue':
    case 'TupleValue': {
      const items = (inner as readonly unknown[]).map((item) => toJson(item, options, depth + 1))
      return joined(items, '[]', options, depth)
    }
    case 'ObjectValue':
    case 'KeywordArgumentsValue':
    case 'NamespaceValue': {
      const entries = [...(inner as ReadonlyMap<string, unknown>)]
      if (options.isSorted) entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      const items = entries.map(
        ([key, item]) =>
          quoted(spellingOfKey(key) ?? key, options) + options.separators[1] + toJson(item, options, depth + 1),
      )
      return joined(items, '{}', options, depth)
    }
    default:
      throw new Error(`Cannot convert to JSON: ${String(field(value, 'type'))}`)
  }
}

function joined(
  items: readonly string[],
  brackets: string,
  { indent, separators }: JsonOptions,
  depth: number,
): string {
  const [open, close] = [brackets.charAt(0), brackets.charAt(1)]
  const deepest = indent === null ? 0 : indent.length * (depth + 1) + 1
  claimPrinted(2 + (separators[0].length + deepest) * (items.length + 1))
  if (indent === null || items.length === 0) return open + items.join(separators[0]) + close
  const line = `\n${indent.repeat(depth)}`
  return `${open}${line}${indent}${items.join(`${separators[0]}${line}${indent}`)}${line}${close}`
}

function quoted(text: string, { isAscii }: JsonOptions): string {
  claimText(text.length * LONGEST_ESCAPE)
  const json = JSON.stringify(text)
  claimPrinted(json.length)
  if (!isAscii) return json
  return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Python's `str` of a runtime value. */
export function textOf(value: unknown): string {
  const inner = field(value, 'value')
  switch (field(value, 'type')) {
    case 'StringValue':
      return String(inner)
    case 'UndefinedValue':
      return ''
    default:
      return printing(() => notation(value))
  }
}

/** What Python prints for a value of which the library prints something else; undefined where they agree. */
export function printedValue(value: unknown): string | undefined {
  switch (field(value, 'type')) {
    case 'NullValue':
    case 'BooleanValue':
    case 'FloatValue':
    case 'ArrayValue':
    case 'TupleValue':
    case 'ObjectValue':
      return textOf(value)
    default:
      return undefined
  }
}

/** Python's `repr`. */
function notation(value: unknown): string {
  // brackets, a comma and a blank, or a number
  claimPrinted(4)
  const inner = field(value, 'value')
  switch (field(value, 'type')) {
    case 'NullValue':
      return 'None'
    case 'UndefinedValue':
      return 'Undefined'
    case 'BooleanValue':
      return inner === true ? 'True' : 'False'
    case 'IntegerValue':
      return integerText(inner)
    case 'FloatValue':
      return floatText(Number(inner), { infinity: 'inf', nan: 'nan' })
    case 'StringValue':
      return stringNotation(String(inner))
    case 'ArrayValue':
      return `[${(inner as readonly unknown[]).map(notation).join(', ')}]`
    case 'TupleValue': {
      const items = (inner as readonly unknown[]).map(notation)
      return items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`
    }
    case 'ObjectValue':
    case 'KeywordArgumentsValue':
    case 'NamespaceValue': {
      const entries = [...(inner as ReadonlyMap<string, unknown>)]
      return `{${entries.map(([key, item]) => `${spellingOfKey(key) ?? stringNotation(key)}: ${notation(item)}`).join(', ')}}`
    }
    default:
      throw new Error(`Cannot print: ${String(field(value, 'type'))}`)
  }
}

/** In single quotes, unless the text has those and no double ones; what does not print is escaped. */
function stringNotation(text: string): string {
  claimText(text.length * LONGEST_ESCAPE)
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const escaped = text.replace(/[\\'"]|(?! )[\p{C}\p{Z}]/gu, (character) => {
    if (character === quote || character === '\\') return `\\${character}`
    if (character === "'" || character === '"') return character
    const short = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[character]
    if (short !== undefined) return short
    const code = character.codePointAt(0) ?? 0
    const [mark, digits] = code <= 0xff ? ['x', 2] : code <= 0xffff ? ['u', 4] : ['U', 8]
    return `\\${mark}${code.toString(16).padStart(Number(digits), '0')}`
  })
  claimPrinted(escaped.length)
  return quote + escaped + quote
}

/** Also of what a filter made of a number, such as `-0`. */
function integerText(value: unknown): string {
  if (typeof value === 'number' && Math.abs(value) >= 1e21) return BigInt(value).toString()
  return String(value)
}

/** Both languages write the fewest digits that tell a double apart, but begin with exponents elsewhere. */
function floatText(value: number, names: { readonly infinity: string; readonly nan: string }): string {
  if (Number.isNaN(value)) return names.nan
  if (!Number.isFinite(value)) return value < 0 ? `-${names.infinity}` : names.infinity
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0'
  const [mantissa = '', power = '0'] = value.toExponential().split('e')
  const exponent = Number(power)
  if (exponent < -4 || exponent >= 16) {
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  }
  const sign = value < 0 ? '-' : ''
  const digits = mantissa.replace(/[-.]/g, '')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0')
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`
}
