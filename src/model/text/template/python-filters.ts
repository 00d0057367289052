/**
 * Filters of Jinja 3.1 as Python has them. @huggingface/jinja lacks half of them (`min`, `max`, `batch`, `format`, `select`, `sum`, `round`
 * …), has others for some types only (`upper` of a list, `default` of none, `string` of a mapping), refuses undefined values where
 * Python takes them for empty, and counts and cuts strings by UTF-16 units.
 *
 * `tojson`, `string` and `join` are in `python-values.ts`. Left out: what needs randomness, and filters for web pages.
 */
import { capitalize, formatPercent, replaceText, strip, title } from './python-methods.js'
import { testOf } from './python-tests.js'
import { textOf } from './python-values.js'
import { claimItems, claimText } from './render-meter.js'
import {
  type Arguments,
  argument,
  codePointCount,
  codePointsOf,
  compare,
  countOf,
  isEqual,
  isMissing,
  isTrue,
  itemsOf,
  looped,
  memberOf,
  numberOf,
  pairsOf,
  stringOf,
  typeOf,
  type Value,
  type ValueMaker,
} from './runtime-values.js'

/** What a filter may ask for besides its arguments. */
export interface FilterContext {
  readonly make: ValueMaker
  /** Applies another filter, as `map('upper')` does. */
  readonly apply: (name: string, value: unknown, args: Arguments) => unknown
}

type Filter = (value: unknown, args: Arguments, context: FilterContext) => unknown

const numberArgument = (args: Arguments, at: number, name: string, otherwise: number): number => {
  const given = argument(args, at, name)
  return given === undefined ? otherwise : Number(numberOf(given) ?? otherwise)
}
const flag = (args: Arguments, at: number, name: string): boolean => isTrue(argument(args, at, name) ?? null)

/** What a value is sorted or told apart by: a member, and no case unless asked. */
function sortKey(value: unknown, attribute: unknown, isCaseSensitive: boolean, make: ValueMaker): unknown {
  const isWhole = attribute === undefined || typeOf(attribute) === 'NullValue'
  const key = isWhole ? value : memberOf(value, attribute, make)
  const text = stringOf(key)
  return text === null || isCaseSensitive ? key : make.text(text.toLowerCase())
}

const sorted = (items: readonly unknown[], keyed: (item: unknown) => unknown, isReversed: boolean): unknown[] => {
  const keys = new Map(items.map((item) => [item, keyed(item)]))
  return items.toSorted((a, b) => compare(keys.get(a), keys.get(b)) * (isReversed ? -1 : 1))
}

const extreme =
  (sign: number): Filter =>
  (value, args, { make }) => {
    const keyed = (item: unknown): unknown =>
      sortKey(item, argument(args, 1, 'attribute'), flag(args, 0, 'case_sensitive'), make)
    const [first, ...rest] = looped(value, make)
    return rest.reduce(
      (best, item) => (compare(keyed(item), keyed(best)) * sign > 0 ? item : best),
      first ?? make.missing,
    )
  }

/** `select` and its kin: by a test of the item or of a member of it. */
const selecting =
  (isWanted: boolean, isByMember: boolean): Filter =>
  (value, { positional }, { make }) => {
    if (!isTrue(value)) return make.list([])
    const [name, ...args] = isByMember ? positional.slice(1) : positional
    const test = name === undefined ? isTrue : testOf(textOf(name))
    const subject = (item: unknown): unknown => (isByMember ? memberOf(item, positional[0], make) : item)
    return make.list(looped(value, make).filter((item) => test(subject(item), args[0]) === isWanted))
  }

const mapped: Filter = (value, args, { make, apply }) => {
  if (!isTrue(value)) return make.list([])
  const attribute = args.named.get('attribute')
  const otherwise = args.named.get('default')
  const items = looped(value, make)
  if (attribute !== undefined) {
    return make.list(
      items.map((item) => {
        const member = memberOf(item, attribute, make)
        return isMissing(member) ? (otherwise ?? member) : member
      }),
    )
  }
  const [name, ...rest] = args.positional
  return make.list(items.map((item) => apply(textOf(name), item, { positional: rest, named: args.named })))
}

const batched: Filter = (value, args, { make }) => {
  const [size, filling] = [numberArgument(args, 0, 'linecount', 1), argument(args, 1, 'fill_with')]
  const rows: unknown[][] = []
  for (const [i, item] of looped(value, make).entries()) i % size === 0 ? rows.push([item]) : rows.at(-1)?.push(item)
  const last = rows.at(-1)
  if (filling !== undefined) claimItems(size)
  while (filling !== undefined && last !== undefined && last.length < size) last.push(filling)
  return make.list(rows.map(make.list))
}

const sliced: Filter = (value, args, { make }) => {
  const items = looped(value, make)
  const count = numberArgument(args, 0, 'slices', 1)
  const filling = argument(args, 1, 'fill_with')
  claimItems(count)
  const [each, more] = [Math.floor(items.length / count), items.length % count]
  const rows = Array.from({ length: count }, (_, i) => {
    const from = i * each + Math.min(i, more)
    const row = items.slice(from, from + each + (i < more ? 1 : 0))
    return make.list(filling !== undefined && i >= more ? [...row, filling] : row)
  })
  return make.list(rows)
}

const rounded: Filter = (value, args, { make }) => {
  const number = Number(numberOf(value) ?? Number.NaN)
  const scale = 10 ** numberArgument(args, 0, 'precision', 0)
  const method = stringOf(argument(args, 1, 'method')) ?? 'common'
  const scaled = number * scale
  if (method !== 'common') return make.float((method === 'ceil' ? Math.ceil(scaled) : Math.floor(scaled)) / scale)
  // halves go to the even neighbour
  const floor = Math.floor(scaled)
  const isHalf = scaled - floor === 0.5
  return make.float((isHalf ? floor + (remainderOfTwo(floor) === 0 ? 0 : 1) : Math.round(scaled)) / scale)
}
const remainderOfTwo = (value: number): number => Math.abs(value % 2)

const lengthOf: Filter = (value, _, { make }) => {
  const text = stringOf(value)
  return make.integer(text === null ? looped(value, make).length : codePointCount(text))
}

const indented: Filter = (value, args, { make }) => {
  const width = argument(args, 0, 'width')
  claimText(Number(numberOf(width) ?? 4))
  const indent = stringOf(width) ?? ' '.repeat(Number(numberOf(width) ?? 4))
  const isBlankIndented = flag(args, 2, 'blank')
  const text = textOf(value)
  const count = countOf(text, '\n') + 1
  claimItems(count)
  claimText(text.length + count * indent.length)
  const lines = text.split('\n')
  const isIndented = (line: string, i: number): boolean =>
    (i > 0 && (isBlankIndented || line !== '')) || (i === 0 && flag(args, 1, 'first'))
  return make.text(lines.map((line, i) => (isIndented(line, i) ? indent + line : line)).join('\n'))
}

const numberFrom =
  (read: (text: string, args: Arguments) => number, whole: boolean): Filter =>
  (value, args, { make }) => {
    const otherwise = argument(args, 0, 'default') ?? (whole ? make.integer(0) : make.float(0))
    const number = numberOf(value)
    if (typeof number === 'bigint') return whole ? value : make.float(Number(number))
    const read_ = number ?? (stringOf(value) === null ? Number.NaN : read(stringOf(value) ?? '', args))
    if (Number.isNaN(read_)) return otherwise
    return whole ? make.integer(Math.trunc(read_)) : make.float(read_)
  }

const readInteger = (text: string, args: Arguments): number => {
  const base = numberArgument(args, 1, 'base', 10)
  const digits = text.trim().replaceAll('_', '')
  if (base !== 10) return Number.parseInt(digits, base)
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(digits) ? Number(digits) : Number.NaN
}
const readFloat = (text: string): number =>
  /^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(text) ? Number(text) : Number.NaN

/** `&quot;` as a number, and a character of three bytes in an address. */
const [LONGEST_ESCAPE, LONGEST_IN_ADDRESS] = [5, 9]
const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' }
export const escapeHtml = (text: string): string => {
  claimText(text.length * LONGEST_ESCAPE)
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
}

/** Texts that `safe` has marked: what is put beside them is escaped, as Python's markup does. */
const marked = new WeakSet<object>()
export const isMarkup = (value: unknown): boolean => typeof value === 'object' && value !== null && marked.has(value)
export const markup = (text: string, make: ValueMaker): Value => {
  const value = make.text(text)
  marked.add(value)
  return value
}

const unique: Filter = (value, args, { make }) => {
  const seen: unknown[] = []
  const isNew = (item: unknown): boolean => {
    const key = sortKey(item, argument(args, 1, 'attribute'), flag(args, 0, 'case_sensitive'), make)
    if (seen.some((other) => isEqual(other, key))) return false
    seen.push(key)
    return true
  }
  return make.list(looped(value, make).filter(isNew))
}

const grouped: Filter = (value, args, { make }) => {
  const attribute = argument(args, 0, 'attribute')
  const otherwise = argument(args, 1, 'default')
  const keyed = (item: unknown): unknown => {
    const key = sortKey(item, attribute, flag(args, 2, 'case_sensitive'), make)
    return isMissing(key) ? (otherwise ?? key) : key
  }
  const groups: { key: unknown; items: unknown[] }[] = []
  for (const item of sorted(looped(value, make), keyed, false)) {
    const last = groups.at(-1)
    if (last !== undefined && isEqual(keyed(last.items[0]), keyed(item))) last.items.push(item)
    else groups.push({ key: memberOf(item, attribute, make), items: [item] })
  }
  return make.list(groups.map(({ key, items }) => make.tuple([key, make.list(items)])))
}

const dictSorted: Filter = (value, args, { make }) => {
  const at = stringOf(argument(args, 1, 'by')) === 'value' ? 1 : 0
  const isSensitive = flag(args, 0, 'case_sensitive')
  const keyed = (pair: unknown): unknown => sortKey(itemsOf(pair)?.[at], undefined, isSensitive, make)
  const pairs = pairsOf(value, make)
  if (pairs === null) throw new Error(`dictsort of ${typeOf(value)}`)
  return make.list(sorted(pairs, keyed, flag(args, 2, 'reverse')))
}

const defaulted: Filter = (value, args, { make }) => {
  const isReplaced = isMissing(value) || (flag(args, 1, 'boolean') && !isTrue(value))
  return isReplaced ? (argument(args, 0, 'default_value') ?? make.text('')) : value
}

const summed: Filter = (value, args, { make }) => {
  const attribute = argument(args, 0, 'attribute')
  const start = argument(args, 1, 'start')
  const items = looped(value, make).map((item) => (attribute === undefined ? item : memberOf(item, attribute, make)))
  const all = start === undefined ? items : [start, ...items]
  const total = all.reduce((sum: number, item) => sum + Number(numberOf(item) ?? Number.NaN), 0)
  return all.some((item) => typeOf(item) === 'FloatValue') ? make.float(total) : make.integer(total)
}

const reversed: Filter = (value, _, { make }) => {
  const text = stringOf(value)
  return text === null ? make.list(looped(value, make).toReversed()) : make.text(codePointsOf(text).reverse().join(''))
}

const truncated: Filter = (value, args, { make }) => {
  const text = textOf(value)
  const [length, leeway] = [numberArgument(args, 0, 'length', 255), numberArgument(args, 3, 'leeway', 5)]
  const end = stringOf(argument(args, 2, 'end')) ?? '...'
  if (text.length <= length + leeway) return make.text(text)
  const cut = text.slice(0, length - end.length)
  return make.text((flag(args, 1, 'killwords') ? cut : cut.replace(/ [^ ]*$/, '')) + end)
}

const escaped: Filter = (value, _, { make }) => (isMarkup(value) ? value : markup(escapeHtml(textOf(value)), make))

const filters: Readonly<Record<string, Filter>> = {
  abs: (value, _, { make }) => {
    const number = numberOf(value)
    if (number === null) throw new Error(`abs of ${typeOf(value)}`)
    const absolute = number < 0 ? -number : number
    return typeOf(value) === 'FloatValue' ? make.float(Number(absolute)) : make.integer(absolute)
  },
  attr: (value, args, { make }) => memberOf(value, args.positional[0], make),
  batch: batched,
  capitalize: (value, _, { make }) => make.text(capitalize(textOf(value))),
  center: (value, args, { make }) => {
    const text = textOf(value)
    claimText(numberArgument(args, 0, 'width', 80))
    const missing = Math.max(0, numberArgument(args, 0, 'width', 80) - codePointCount(text))
    const before =
      Math.floor(missing / 2) + (missing % 2 === 1 && numberArgument(args, 0, 'width', 80) % 2 === 1 ? 1 : 0)
    return make.text(' '.repeat(before) + text + ' '.repeat(missing - before))
  },
  count: lengthOf,
  d: defaulted,
  default: defaulted,
  dictsort: dictSorted,
  e: escaped,
  escape: escaped,
  first: (value, _, { make }) => looped(value, make)[0] ?? make.missing,
  float: numberFrom(readFloat, false),
  forceescape: (value, _, { make }) => markup(escapeHtml(textOf(value)), make),
  format: (value, { positional, named }, { make }) => {
    const mapping = named.size > 0 ? make.mapping(named) : positional[0]
    return make.text(formatPercent(textOf(value), positional, mapping))
  },
  groupby: grouped,
  indent: indented,
  int: numberFrom(readInteger, true),
  items: (value, _, { make }) => make.list(pairsOf(value, make) ?? looped(isMissing(value) ? value : null, make)),
  last: (value, _, { make }) => looped(value, make).at(-1) ?? make.missing,
  length: lengthOf,
  list: (value, _, { make }) => make.list(looped(value, make)),
  lower: (value, _, { make }) => make.text(textOf(value).toLowerCase()),
  map: mapped,
  max: extreme(1),
  min: extreme(-1),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  replace: (value, args, { make }) => {
    const [from, to] = [argument(args, 0, 'old'), argument(args, 1, 'new')].map(textOf)
    return make.text(replaceText(textOf(value), from ?? '', to ?? '', numberArgument(args, 2, 'count', -1)))
  },
  reverse: reversed,
  round: rounded,
  safe: (value, _, { make }) => markup(textOf(value), make),
  select: selecting(true, false),
  selectattr: selecting(true, true),
  slice: sliced,
  sort: (value, args, { make }) =>
    make.list(
      sorted(
        looped(value, make),
        (item) => sortKey(item, argument(args, 2, 'attribute'), flag(args, 1, 'case_sensitive'), make),
        flag(args, 0, 'reverse'),
      ),
    ),
  sum: summed,
  title: (value, _, { make }) => make.text(title(textOf(value))),
  trim: (value, args, { make }) =>
    make.text(strip(textOf(value), stringOf(argument(args, 0, 'chars')), { left: true, right: true })),
  truncate: truncated,
  unique,
  upper: (value, _, { make }) => make.text(textOf(value).toUpperCase()),
  urlencode: (value, _, { make }) => {
    const text = textOf(value)
    claimText(text.length * LONGEST_IN_ADDRESS)
    return make.text(encodeURIComponent(text).replaceAll('%2F', '/'))
  },
  wordcount: (value, _, { make }) => {
    let count = 0
    for (const _word of textOf(value).matchAll(/\w+/g)) count += 1
    return make.integer(count)
  },
}

/** What a filter makes of a value; undefined where it is none of these. */
export function applyFilter(name: string, value: unknown, args: Arguments, context: FilterContext): unknown {
  const filter = Object.hasOwn(filters, name) ? filters[name] : undefined
  return filter?.(value, args, context)
}
