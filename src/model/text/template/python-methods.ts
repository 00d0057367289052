/**
 * Methods of Python's strings, lists and mappings that templates call. @huggingface/jinja has a dozen, some of which differ: those that
 * strip ignore their argument and take a byte order mark for white space, `split` refuses names, `capitalize` keeps the rest's case,
 * `get` takes strings only. Methods that change a value are left out: the sandbox of transformers refuses them, too.
 */
import { textOf } from './python-values.js'
import { claimItems, claimSearch, claimText } from './render-meter.js'
import {
  type Arguments,
  argument,
  argumentsIn,
  codePointCount,
  countOf,
  entriesOf,
  field,
  isEqual,
  itemsOf,
  keyOf,
  keysOf,
  looped,
  numberOf,
  pairsOf,
  stringOf,
  type ValueMaker,
} from './runtime-values.js'

type Method<Self> = (self: Self, args: Arguments, make: ValueMaker) => unknown

/** White space to `str.strip` and `str.split`: not a byte order mark, but the separators of ASCII. */
const BLANK = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]'
const lineEnd = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/
const isBlank = new RegExp(`^${BLANK}$`)

/** Removes white space, or characters of a set, from the chosen ends. */
export function strip(text: string, characters: string | null, ends: { left?: boolean; right?: boolean }): string {
  const set = new Set<string>()
  for (let at = 0; at < (characters?.length ?? 0); at++) set.add(characters?.charAt(at) ?? '')
  const isOut = (character: string): boolean => (characters === null ? isBlank.test(character) : set.has(character))
  let start = 0
  let end = text.length
  if (ends.left === true) while (start < end && isOut(text.charAt(start))) start++
  if (ends.right === true) while (end > start && isOut(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

export function title(text: string): string {
  return text.replace(/\p{L}+/gu, (word) => capitalize(word))
}

export function capitalize(text: string): string {
  const [first = ''] = text
  return first.toUpperCase() + text.slice(first.length).toLowerCase()
}

function split(text: string, separator: string | null, limit: number, isFromRight = false): string[] {
  const most = limit < 0 ? Number.POSITIVE_INFINITY : limit
  if (separator === '') throw new Error('empty separator')
  if (separator === null) return splitAtBlanks(text, most, isFromRight)
  claimItems(countOf(text, separator) + 1)
  const parts = text.split(separator)
  if (parts.length - 1 <= most) return parts
  return isFromRight
    ? [parts.slice(0, parts.length - most).join(separator), ...parts.slice(parts.length - most)]
    : [...parts.slice(0, most), parts.slice(most).join(separator)]
}

function splitAtBlanks(text: string, most: number, isFromRight: boolean): string[] {
  const words: RegExpExecArray[] = []
  const found = strip(text, null, { left: true, right: true }).matchAll(new RegExp(`(?:(?!${BLANK})[\\s\\S])+`, 'g'))
  for (const word of found) claimItems(words.push(word))
  if (words.length - 1 <= most) return words.map(([word]) => word)
  if (isFromRight) {
    const kept = words.slice(words.length - most)
    const before = strip(text, null, { left: true, right: true }).slice(0, kept[0]?.index)
    return [strip(before, null, { right: true }), ...kept.map(([word]) => word)]
  }
  const rest = strip(text, null, { left: true }).slice(words[most]?.index)
  return [...words.slice(0, most).map(([word]) => word), rest]
}

/** Replaces the places of a pattern; the whole is counted before the next piece is made. */
function replacePlaces(
  pattern: string,
  places: RegExp,
  pieceOf: (whole: string, ...groups: (string | undefined)[]) => string,
): string {
  let length = pattern.length
  return pattern.replace(places, (whole: string, ...groups: (string | undefined)[]) => {
    const piece = pieceOf(whole, ...groups)
    length += piece.length
    claimText(length)
    return piece
  })
}

/** `'%s-%d' % (a, 3)` and the filter `format`. */
export function formatPercent(pattern: string, args: readonly unknown[], named: unknown): string {
  let next = 0
  return replacePlaces(
    pattern,
    /%(?:\((\w+)\))?([-+ 0#]*)(\d+)?(?:\.(\d+))?([sdifrxXeg%])/g,
    (_, name, flags = '', width = '', precision, kind = '') => {
      if (kind === '%') return '%'
      const value = name === undefined ? args[next++] : entriesOf(named)?.get(name)
      if (value === undefined) throw new Error('not enough arguments for format string')
      const text = percentText(value, kind, precision, flags)
      return pad(text, Number(width || 0), flags)
    },
  )
}

function percentText(value: unknown, kind: string, precision: string | undefined, flags: string): string {
  if (kind === 's' || kind === 'r') {
    const text = textOf(value)
    return precision === undefined ? text : text.slice(0, Number(precision))
  }
  const number = numberOf(value)
  if (number === null) throw new Error(`%${kind} needs a number`)
  const sign = flags.includes('+') && number >= 0 ? '+' : ''
  if (kind === 'f') return sign + fixed(Number(number), Number(precision ?? 6))
  if (kind === 'e')
    return (
      sign +
      Number(number)
        .toExponential(Number(precision ?? 6))
        .replace(/e([+-])(\d)$/, 'e$10$2')
    )
  if (kind === 'g') return sign + String(Number(Number(number).toPrecision(Number(precision ?? 6))))
  const whole = typeof number === 'bigint' ? number : BigInt(Math.trunc(number))
  const digits = whole.toString(kind === 'x' || kind === 'X' ? 16 : 10)
  return sign + (kind === 'X' ? digits.toUpperCase() : digits)
}

/** With so many digits behind the point; halves go to the even neighbour. */
function fixed(value: number, digits: number): string {
  const scaled = Math.abs(value) * 10 ** digits
  const isHalf = scaled % 1 === 0.5 && Math.floor(scaled) % 2 === 0
  return isHalf ? ((Math.sign(value) * Math.floor(scaled)) / 10 ** digits).toFixed(digits) : value.toFixed(digits)
}

function pad(text: string, width: number, flags: string): string {
  claimText(width)
  if (flags.includes('-')) return text.padEnd(width)
  if (!flags.includes('0')) return text.padStart(width)
  const sign = /^[+-]/.exec(text)?.[0] ?? ''
  return sign + text.slice(sign.length).padStart(width - sign.length, '0')
}

/** `'{} of {n:>3}'.format(…)`: names, positions, members, width and the commonest types. */
function formatBraces(pattern: string, { positional, named }: Arguments): string {
  let next = 0
  return replacePlaces(
    pattern,
    /\{\{|\}\}|\{([^{}:!]*)(?:!([rs]))?(?::([^{}]*))?\}/g,
    (whole, path = '', _conversion, spec = '') => {
      if (whole === '{{' || whole === '}}') return whole.charAt(0)
      const [, first = '', rest = ''] = /^(\w*)(.*)$/.exec(String(path)) ?? []
      let value = first === '' ? positional[next++] : /^\d+$/.test(first) ? positional[Number(first)] : named.get(first)
      for (const [, member, item] of rest.matchAll(/\.(\w+)|\[([^\]]*)\]/g)) {
        const key = member ?? item ?? ''
        value = itemsOf(value)?.[Number(key)] ?? entriesOf(value)?.get(key)
      }
      if (value === undefined) throw new Error('Replacement index out of range for positional args tuple')
      return formatSpec(value, String(spec))
    },
  )
}

function formatSpec(value: unknown, spec: string): string {
  if (spec === '') return textOf(value)
  const [, fill = ' ', align, sign = '', zero = '', width = '', comma = '', precision, kind = ''] =
    /^(?:(.)(?=[<>^=]))?([<>^=])?([+ -])?(0)?(\d+)?(,)?(?:\.(\d+))?([sdfeg%xX])?$/u.exec(spec) ?? []
  const number = numberOf(value)
  let text = textOf(value)
  if (number !== null && 'dxX'.includes(kind || '-')) text = percentText(value, kind, undefined, sign)
  else if (number !== null && kind === '%') text = `${(Number(number) * 100).toFixed(Number(precision ?? 6))}%`
  else if (number !== null && (kind !== '' || precision !== undefined)) {
    text = percentText(value, kind === '' ? 'g' : kind, precision, sign)
  } else if (precision !== undefined) text = text.slice(0, Number(precision))
  if (comma !== '') text = text.replace(/\d(?=(\d{3})+(?!\d))/g, '$&,')
  claimText(Number(width || 0))
  const missing = Math.max(0, Number(width || 0) - codePointCount(text))
  if (zero !== '' && align === undefined) return pad(text, Number(width), '0')
  const side = align ?? (number === null ? '<' : '>')
  const before = side === '<' ? 0 : side === '^' ? Math.floor(missing / 2) : missing
  return fill.repeat(before) + text + fill.repeat(missing - before)
}

const stringArgument = (args: Arguments, at: number, name: string): string | null => {
  const given = argument(args, at, name)
  if (given === undefined || field(given, 'type') === 'NullValue') return null
  const text = stringOf(given)
  if (text === null) throw new Error(`${name} must be a string`)
  return text
}
const soughtArgument = (text: string, args: Arguments): string => {
  const part = stringArgument(args, 0, 'sub') ?? ''
  claimSearch(text, part)
  return part
}
const numberArgument = (args: Arguments, at: number, name: string, otherwise: number): number => {
  const given = argument(args, at, name)
  return given === undefined ? otherwise : Number(numberOf(given) ?? otherwise)
}
const widthArgument = (args: Arguments): number => {
  const width = numberArgument(args, 0, 'width', 0)
  claimText(width)
  return width
}
const codePoints = (text: string, units: number): number => (units < 0 ? units : codePointCount(text.slice(0, units)))
const isAll = (pattern: RegExp) => (text: string, _: Arguments, make: ValueMaker) => make.boolean(pattern.test(text))

/** Whether a text begins or ends so; a tuple holds several. */
const hasAffix =
  (test: (text: string, affix: string) => boolean): Method<string> =>
  (text, { positional: [affix] }, make) => {
    const affixes = (itemsOf(affix) ?? [affix]).map(stringOf)
    if (affixes.includes(null)) throw new Error('startswith and endswith take a string or a tuple of strings')
    return make.boolean(affixes.some((one) => one !== null && test(text, one)))
  }

const stripping =
  (ends: { left?: boolean; right?: boolean }): Method<string> =>
  (text, args, make) =>
    make.text(strip(text, stringArgument(args, 0, 'chars'), ends))

const splitting =
  (isFromRight: boolean): Method<string> =>
  (text, args, make) => {
    const parts = split(text, stringArgument(args, 0, 'sep'), numberArgument(args, 1, 'maxsplit', -1), isFromRight)
    return make.list(parts.map(make.text))
  }

const partitioning =
  (find: (text: string, separator: string) => number, isFromRight: boolean): Method<string> =>
  (text, args, make) => {
    const separator = stringArgument(args, 0, 'sep') ?? ''
    claimSearch(text, separator)
    const at = find(text, separator)
    const parts = at >= 0 ? [text.slice(0, at), separator, text.slice(at + separator.length)] : [text, '', '']
    return make.tuple((at < 0 && isFromRight ? parts.toReversed() : parts).map(make.text))
  }

/** A text with so many of its parts replaced. */
export function replaceText(text: string, from: string, to: string, count: number): string {
  const times = count < 0 ? countOf(text, from) : Math.min(count, countOf(text, from))
  claimText(text.length + times * Math.max(0, to.length - from.length))
  if (count < 0) return text.replaceAll(from, () => to)
  let left = count
  return text.replaceAll(from, (part) => (left-- > 0 ? to : part))
}

const stringMethods: Readonly<Record<string, Method<string>>> = {
  upper: (text, _, make) => make.text(text.toUpperCase()),
  lower: (text, _, make) => make.text(text.toLowerCase()),
  casefold: (text, _, make) => make.text(text.toLowerCase()),
  title: (text, _, make) => make.text(title(text)),
  capitalize: (text, _, make) => make.text(capitalize(text)),
  strip: stripping({ left: true, right: true }),
  lstrip: stripping({ left: true }),
  rstrip: stripping({ right: true }),
  split: splitting(false),
  rsplit: splitting(true),
  splitlines: (text, _, make) => {
    let count = 1
    for (const _ of text.matchAll(new RegExp(lineEnd, 'g'))) claimItems(++count)
    const lines = text.split(lineEnd)
    return make.list((lines.at(-1) === '' ? lines.slice(0, -1) : lines).map(make.text))
  },
  partition: partitioning((text, separator) => text.indexOf(separator), false),
  rpartition: partitioning((text, separator) => text.lastIndexOf(separator), true),
  startswith: hasAffix((text, affix) => text.startsWith(affix)),
  endswith: hasAffix((text, affix) => text.endsWith(affix)),
  removeprefix: (text, args, make) => {
    const prefix = stringArgument(args, 0, 'prefix') ?? ''
    return make.text(text.startsWith(prefix) ? text.slice(prefix.length) : text)
  },
  removesuffix: (text, args, make) => {
    const suffix = stringArgument(args, 0, 'suffix') ?? ''
    return make.text(suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text)
  },
  replace: (text, args, make) => {
    const [from, to] = [stringArgument(args, 0, 'old'), stringArgument(args, 1, 'new')]
    if (from === null || to === null) throw new Error('replace() takes two strings')
    return make.text(replaceText(text, from, to, numberArgument(args, 2, 'count', -1)))
  },
  find: (text, args, make) => make.integer(codePoints(text, text.indexOf(soughtArgument(text, args)))),
  rfind: (text, args, make) => make.integer(codePoints(text, text.lastIndexOf(soughtArgument(text, args)))),
  index: (text, args, make) => {
    const at = text.indexOf(soughtArgument(text, args))
    if (at < 0) throw new Error('substring not found')
    return make.integer(codePoints(text, at))
  },
  count: (text, args, make) => make.integer(countOf(text, stringArgument(args, 0, 'sub') ?? '')),
  join: (text, { positional: [list] }, make) => {
    const parts = looped(list, make).map((item) => stringOf(item))
    if (parts.includes(null)) throw new Error('join() takes strings')
    claimText(parts.reduce((sum, part) => sum + (part?.length ?? 0) + text.length, 0))
    return make.text(parts.join(text))
  },
  format: (text, args, make) => make.text(formatBraces(text, args)),
  zfill: (text, args, make) => make.text(pad(text, numberArgument(args, 0, 'width', 0), '0')),
  ljust: (text, args, make) => make.text(text.padEnd(widthArgument(args), stringArgument(args, 1, 'fillchar') ?? ' ')),
  rjust: (text, args, make) =>
    make.text(text.padStart(widthArgument(args), stringArgument(args, 1, 'fillchar') ?? ' ')),
  isdigit: isAll(/^\p{Nd}+$/u),
  isnumeric: isAll(/^\p{N}+$/u),
  isalpha: isAll(/^\p{L}+$/u),
  isalnum: isAll(/^[\p{L}\p{N}]+$/u),
  isspace: isAll(new RegExp(`^${BLANK}+$`)),
  isupper: (text, _, make) => make.boolean(text === text.toUpperCase() && text !== text.toLowerCase()),
  islower: (text, _, make) => make.boolean(text === text.toLowerCase() && text !== text.toUpperCase()),
}

const listMethods: Readonly<Record<string, Method<readonly unknown[]>>> = {
  index: (items, { positional: [item] }, make) => {
    const at = items.findIndex((one) => isEqual(one, item))
    if (at < 0) throw new Error('the value is not in the list')
    return make.integer(at)
  },
  count: (items, { positional: [item] }, make) => make.integer(items.filter((one) => isEqual(one, item)).length),
}

const mappingMethods: Readonly<Record<string, Method<object>>> = {
  get: (self, args, make) => {
    const key = argument(args, 0, 'key')
    return entriesOf(self)?.get(keyOf(key)) ?? argument(args, 1, 'default') ?? make.none
  },
  items: (self, _, make) => make.list(pairsOf(self, make) ?? []),
  keys: (self, _, make) => make.list(keysOf(self, make) ?? []),
  values: (self, _, make) => make.list([...(entriesOf(self)?.values() ?? [])]),
  copy: (self, _, make) => make.mapping(new Map(entriesOf(self))),
}

/** The method of a value; undefined where it has none of the name. */
export function methodOf(self: unknown, name: string, make: ValueMaker): unknown {
  const bind = <Self>(methods: Readonly<Record<string, Method<Self>>>, bound: Self): unknown => {
    const method = Object.hasOwn(methods, name) ? methods[name] : undefined
    return method === undefined ? undefined : make.callable((args) => method(bound, argumentsIn(args), make))
  }
  const text = stringOf(self)
  if (text !== null) return bind(stringMethods, text)
  const items = itemsOf(self)
  if (items !== null) return bind(listMethods, items)
  const isMapping = field(self, 'type') === 'ObjectValue' && entriesOf(self) !== null
  return isMapping ? bind(mappingMethods, self as object) : undefined
}
