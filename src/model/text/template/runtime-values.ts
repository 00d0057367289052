/**
 * The values of a running template: their shapes, and what Python holds of them (truth, equality, order, keys).
 *
 * Knows the shapes of the interpreter's values, not its classes, which the package does not export: those that it makes are found by
 * example. Keys of mappings that are no strings are kept under a spelling that no data has, since the interpreter knows only strings.
 */
import { claimItems, claimSearch, claimStep, claimText } from './render-meter.js'

export type Value = object

type Make = new (value: unknown) => Value

/** Makes values of the interpreter. */
export interface ValueMaker {
  text(value: string): Value
  integer(value: number | bigint): Value
  float(value: number): Value
  boolean(value: boolean): Value
  list(items: readonly unknown[]): Value
  tuple(items: readonly unknown[]): Value
  mapping(entries: ReadonlyMap<string, unknown>): Value
  /** Arguments by name, as functions get them last. */
  keywords(entries: ReadonlyMap<string, unknown>): Value
  /** @param call gets positional values; keyword arguments come last, as one value */
  callable(call: (args: readonly unknown[], scope: unknown) => unknown): Value
  readonly none: Value
  readonly missing: Value
}

/** The interpreter that the nodes belong to. */
export interface Runtime {
  readonly make: ValueMaker
  /** The variables in sight. */
  readonly scope: object
  /** Evaluates a node to a runtime value, with these variables or others. */
  evaluate(node: unknown, scope?: object): unknown
  /** The library's own evaluation of the node itself. */
  evaluateAsLibrary(node: unknown): unknown
  /** The text of statements. */
  evaluateBlock(statements: unknown, scope: object): string
  newScope(parent: object): object
  setVariable(scope: object, name: string, value: unknown): void
}

/**
 * @param wrap the package's own conversion of plain values
 * @param samples what it does not convert to: a tuple, and arguments by name
 */
export function createValueMaker(
  wrap: (value: unknown) => unknown,
  samples: { readonly tuple: unknown; readonly keywords: unknown },
): ValueMaker {
  const [Text, Integer, Float, Truth, List, Mapping, Callable, None, Missing, Tuple, Keywords] = [
    ...['', 1, 0.5, true, [], {}, () => null, null, undefined].map(wrap),
    ...[samples.tuple, samples.keywords],
  ].map(makerOf)
  const make = (maker: Make | undefined, value: unknown): Value => {
    if (maker === undefined) throw new Error('unexpected template value')
    return new maker(value)
  }
  return {
    text: (value) => {
      claimText(value.length)
      return make(Text, value)
    },
    integer: (value) => make(Integer, typeof value === 'bigint' ? shortInteger(value) : value),
    float: (value) => make(Float, value),
    boolean: (value) => make(Truth, value),
    list: (items) => {
      claimItems(items.length)
      return make(List, items)
    },
    tuple: (items) => {
      claimItems(items.length)
      return make(Tuple, items)
    },
    mapping: (entries) => {
      claimItems(entries.size)
      return make(Mapping, entries)
    },
    keywords: (entries) => make(Keywords, entries),
    callable: (call) => make(Callable, call),
    none: make(None, null),
    missing: make(Missing, undefined),
  }
}

function makerOf(sample: unknown): Make {
  const made = field(sample, 'constructor')
  if (typeof made !== 'function') throw new Error('unexpected template value')
  return made as Make
}

const shortInteger = (value: bigint): number | bigint => {
  const short = Number(value)
  return Number.isSafeInteger(short) ? short : value
}

export function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

export const typeOf = (value: unknown): string => String(field(value, 'type'))
export const isMissing = (value: unknown): boolean => typeOf(value) === 'UndefinedValue'

/** The text of a string value; null for others. */
export function stringOf(value: unknown): string | null {
  return typeOf(value) === 'StringValue' ? String(field(value, 'value')) : null
}

/** The items of a list or tuple; null for others. */
export function itemsOf(value: unknown): readonly unknown[] | null {
  const inner = field(value, 'value')
  return Array.isArray(inner) ? inner : null
}

/** The entries of a mapping or namespace; null for others. */
export function entriesOf(value: unknown): Map<string, unknown> | null {
  const inner = field(value, 'value')
  return inner instanceof Map ? inner : null
}

/** Booleans count as numbers, as in Python. */
export function numberOf(value: unknown): number | bigint | null {
  const inner = field(value, 'value')
  const type = typeOf(value)
  if (type === 'BooleanValue') return inner === true ? 1 : 0
  if (type !== 'IntegerValue' && type !== 'FloatValue') return null
  return typeof inner === 'number' || typeof inner === 'bigint' ? inner : null
}

export function isTrue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const type = typeOf(value)
  const number = numberOf(value)
  if (number !== null) return number !== 0 && number !== 0n
  if (type === 'NullValue' || type === 'UndefinedValue') return false
  return (stringOf(value)?.length ?? itemsOf(value)?.length ?? entriesOf(value)?.size) !== 0
}

/** What a value gives when it is looped over; null where Python refuses. */
export function iterationOf(value: unknown, make: ValueMaker): readonly unknown[] | null {
  if (isMissing(value)) return []
  const items = itemsOf(value)
  if (items !== null) return items
  const text = stringOf(value)
  if (text !== null) return codePointsOf(text).map((character) => make.text(character))
  return typeOf(value) === 'NamespaceValue' ? null : keysOf(value, make)
}

/** The items of what can be looped over. @throws {Error} where Python refuses */
export function looped(value: unknown, make: ValueMaker): readonly unknown[] {
  const items = iterationOf(value, make)
  if (items === null) throw new Error(`${typeOf(value)} cannot be looped over`)
  return items
}

const KEY_MARK = '\u0000'

/** @throws {Error} for what Python takes for no key */
export function keyOf(value: unknown): string {
  const text = stringOf(value)
  if (text !== null) return text
  const number = numberOf(value)
  if (number !== null) return KEY_MARK + String(number)
  if (typeOf(value) === 'NullValue') return `${KEY_MARK}None`
  if (isMissing(value)) return `${KEY_MARK}Undefined`
  throw new Error(`unhashable key: ${typeOf(value)}`)
}

/** The value that a key stands for. */
export function valueOfKey(key: string, make: ValueMaker): unknown {
  if (!key.startsWith(KEY_MARK)) return make.text(key)
  const spelling = key.slice(1)
  if (spelling === 'None') return make.none
  const isInteger = /^-?\d+$/.test(spelling)
  return isInteger ? make.integer(BigInt(spelling)) : make.float(Number(spelling))
}

/** How a key that is no string prints; null for strings. */
export function spellingOfKey(key: string): string | null {
  return key.startsWith(KEY_MARK) ? key.slice(1) : null
}

export function keysOf(value: unknown, make: ValueMaker): readonly unknown[] | null {
  const entries = entriesOf(value)
  return entries === null ? null : Array.from(entries.keys(), (key) => valueOfKey(key, make))
}

export function pairsOf(value: unknown, make: ValueMaker): readonly unknown[] | null {
  const entries = entriesOf(value)
  return entries === null ? null : Array.from(entries, ([key, item]) => make.tuple([valueOfKey(key, make), item]))
}

/** Python's `==`: by value at any depth, and a string equals no number. */
export function isEqual(a: unknown, b: unknown): boolean {
  claimStep()
  if (a === b) return true
  const [left, right] = [numberOf(a), numberOf(b)]
  // a long integer and a float are compared by value, which strict equality does not
  if (left !== null && right !== null)
    return typeof left === typeof right ? left === right : Number(left) === Number(right)
  const [listA, listB] = [itemsOf(a), itemsOf(b)]
  if (listA !== null && listB !== null) {
    const isSameKind = typeOf(a) === typeOf(b)
    return isSameKind && listA.length === listB.length && listA.every((item, i) => isEqual(item, listB[i]))
  }
  const [mapA, mapB] = [entriesOf(a), entriesOf(b)]
  if (mapA !== null && mapB !== null) {
    return mapA.size === mapB.size && [...mapA].every(([key, item]) => mapB.has(key) && isEqual(item, mapB.get(key)))
  }
  return typeOf(a) === typeOf(b) && left === null && field(a, 'value') === field(b, 'value')
}

/** Below zero, zero or above. @throws {Error} where Python refuses to compare */
export function compare(a: unknown, b: unknown): number {
  claimStep()
  const [left, right] = [numberOf(a), numberOf(b)]
  if (left !== null && right !== null) return left < right ? -1 : left > right ? 1 : 0
  const [textA, textB] = [stringOf(a), stringOf(b)]
  if (textA !== null && textB !== null) return compareCodePoints(textA, textB)
  const [listA, listB] = [itemsOf(a), itemsOf(b)]
  if (listA !== null && listB !== null) {
    for (const [i, item] of listA.entries()) {
      if (i >= listB.length) return 1
      const order = isEqual(item, listB[i]) ? 0 : compare(item, listB[i])
      if (order !== 0) return order
    }
    return listA.length - listB.length
  }
  throw new Error(`${typeOf(a)} and ${typeOf(b)} cannot be compared`)
}

/** Arguments of a call: those by position, and those by name, which the interpreter gives as a last value. */
export interface Arguments {
  readonly positional: readonly unknown[]
  readonly named: ReadonlyMap<string, unknown>
}

export function argumentsIn(args: readonly unknown[]): Arguments {
  const last = args.at(-1)
  const named = typeOf(last) === 'KeywordArgumentsValue' ? entriesOf(last) : null
  return named === null ? { positional: args, named: new Map() } : { positional: args.slice(0, -1), named }
}

/** The argument at a position or of a name. */
export function argument({ positional, named }: Arguments, at: number, name: string): unknown {
  return positional[at] ?? named.get(name)
}

/** A member by a path such as `function.name`, or a position in a list. */
export function memberOf(value: unknown, path: unknown, make: ValueMaker): unknown {
  const steps = stringOf(path)?.split('.') ?? [String(numberOf(path))]
  let member = value
  for (const step of steps) {
    member =
      /^\d+$/.test(step) && itemsOf(member) !== null ? itemsOf(member)?.[Number(step)] : entriesOf(member)?.get(step)
  }
  return member ?? make.missing
}

// texts by code points, as Python counts them, without a list of their characters: a text of a prompt may have millions

const isPaired = /[\ud800-\udbff][\udc00-\udfff]/

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff
const isPairAt = (text: string, at: number): boolean => isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1))

/** How many code points a text has. */
export function codePointCount(text: string): number {
  if (!isPaired.test(text)) return text.length
  let count = 0
  for (let at = 0; at < text.length; at += isPairAt(text, at) ? 2 : 1) count += 1
  return count
}

/** UTF-16 units before a code point. @param index 0 to the count of code points */
function unitsBefore(text: string, index: number): number {
  let at = 0
  for (let i = 0; i < index; i++) at += isPairAt(text, at) ? 2 : 1
  return at
}

/** The code points from one to before another. */
export function codePointSlice(text: string, start: number, stop: number): string {
  if (!isPaired.test(text)) return text.slice(start, stop)
  const from = unitsBefore(text, start)
  const rest = text.slice(from)
  return rest.slice(0, unitsBefore(rest, Math.max(0, stop - start)))
}

/** The code point at an index, from the end where that is below zero; null where there is none. */
export function codePointAt(text: string, index: number): string | null {
  const at = index < 0 && isPaired.test(text) ? index + codePointCount(text) : index
  if (!isPaired.test(text)) return text.at(at) ?? null
  return at < 0 ? null : codePointSlice(text, at, at + 1) || null
}

/** Every code point. @throws {InvalidRequestError} `chat_template_budget` where that is too long a list */
export function codePointsOf(text: string): string[] {
  claimItems(codePointCount(text))
  return Array.from(text)
}

/** How often a part stands in a text, parts that overlap once; of nothing, one more than there are code points. */
export function countOf(text: string, part: string): number {
  if (part === '') return codePointCount(text) + 1
  claimSearch(text, part)
  let count = 0
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count += 1
  return count
}

/** By code points: below zero, zero or above. */
export function compareCodePoints(a: string, b: string): number {
  const least = Math.min(a.length, b.length)
  for (let at = 0; at < least; at++) {
    if (a.charCodeAt(at) === b.charCodeAt(at)) continue
    // the second half of pairs that begin alike
    const from = at > 0 && isHigh(a.charCodeAt(at - 1)) ? at - 1 : at
    return (a.codePointAt(from) ?? 0) - (b.codePointAt(from) ?? 0)
  }
  return a.length - b.length
}
