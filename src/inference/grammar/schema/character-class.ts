/**
 * Classes of characters as EBNF, byte by byte of their UTF-8.
 *
 * xgrammar 0.1.27 reads a class byte by byte: one that names characters beyond ASCII takes none of them, and with one of those in
 * a negated class nothing fits. A class with a single byte beyond ASCII is read as that character instead, so the byte is written twice.
 */
import { append } from '#base/util/lists.js'

/** Code points from one to another, both included. */
export type CodeRange = readonly [from: number, to: number]

const LAST = 0x10ffff
export const SURROGATES: CodeRange = [0xd800, 0xdfff]
/** What JSON strings cannot hold as it is. */
const ESCAPED: readonly CodeRange[] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
]

/** What is in none of the ranges. */
export function complement(ranges: readonly CodeRange[]): readonly CodeRange[] {
  const left: CodeRange[] = []
  let start = 0
  for (const [from, to] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (from > start) left.push([start, from - 1])
    start = Math.max(start, to + 1)
  }
  return start > LAST ? left : [...left, [start, LAST]]
}

/** The part of the ranges that a JSON string holds without an escape. */
export function plainPart(ranges: readonly CodeRange[]): readonly CodeRange[] {
  return complement([...complement(ranges), ...ESCAPED, SURROGATES])
}

/** Alternatives for one character of the ranges, which hold no surrogates, as few as there can be; none for no ranges. */
export function classAlternatives(ranges: readonly CodeRange[]): readonly string[] {
  const ascii = ranges.flatMap(([from, to]): CodeRange[] => (from < 0x80 ? [[from, Math.min(to, 0x7f)]] : []))
  const sequences = joined(ranges.flatMap(([from, to]) => utf8Sequences(Math.max(from, 0x80), to)))
  return [
    ...(ascii.length === 0 ? [] : [`[${ascii.map(asciiRange).join('')}]`]),
    ...sequences.map((classes) => classes.map(byteClass).join(' ')),
  ]
}

/** A class of bytes, and one for each byte of a character. */
type ByteClass = readonly CodeRange[]
type ByteSequence = readonly ByteClass[]

/** Sequences that differ in one class alone are one: first those of the same beginning, then those of the same end. */
function joined(sequences: readonly ByteSequence[]): readonly ByteSequence[] {
  const join = (given: readonly ByteSequence[], place: (sequence: ByteSequence) => number): ByteSequence[] => {
    const groups = new Map<string, { readonly sequence: ByteSequence; readonly classes: ByteClass[] }>()
    for (const sequence of given) {
      const at = place(sequence)
      const key = sequence.map((each, index) => (index === at ? '' : each.map(asciiRange).join(''))).join(' ')
      const group = groups.get(key) ?? { sequence, classes: [] }
      group.classes.push(sequence[at] ?? [])
      groups.set(key, group)
    }
    return Array.from(groups.values(), ({ sequence, classes }) => sequence.with(place(sequence), classes.flat()))
  }
  return join(
    join(sequences, ({ length }) => length - 1),
    () => 0,
  )
}

/** Only escapes: a digit or letter after one would be read as part of its number. */
function asciiRange([from, to]: CodeRange): string {
  return from === to ? byteEscape(from) : `${byteEscape(from)}-${byteEscape(to)}`
}

const byteEscape = (byte: number): string => `\\x${byte.toString(16).padStart(2, '0')}`

function utf8Sequences(from: number, to: number): ByteSequence[] {
  const found: ByteSequence[] = []
  // code points of one length have their bytes in order
  for (const [first, last] of [
    [0x80, 0x7ff],
    [0x800, 0xd7ff],
    [0xe000, 0xffff],
    [0x10000, LAST],
  ] as const) {
    const [low, high] = [Math.max(from, first), Math.min(to, last)]
    if (low <= high) append(found, byteSequences(bytesOf(low), bytesOf(high)))
  }
  return found
}

function bytesOf(code: number): number[] {
  return [...Buffer.from(String.fromCodePoint(code), 'utf8')]
}

/** Sequences of byte classes for everything from `low` to `high`, which are equally long. */
function byteSequences(low: readonly number[], high: readonly number[]): ByteSequence[] {
  const [a = 0, ...lowRest] = low
  const [b = 0, ...highRest] = high
  if (lowRest.length === 0) return [[[[a, b]]]]
  const join = (from: number, to: number, tails: readonly ByteSequence[]): ByteSequence[] =>
    tails.map((tail) => [[[from, to]], ...tail])
  if (a === b) return join(a, a, byteSequences(lowRest, highRest))
  const least = lowRest.map(() => 0x80)
  const most = lowRest.map(() => 0xbf)
  const isFromLeast = lowRest.every((byte) => byte === 0x80)
  const isToMost = highRest.every((byte) => byte === 0xbf)
  const from = isFromLeast ? a : a + 1
  const to = isToMost ? b : b - 1
  return [
    ...(isFromLeast ? [] : join(a, a, byteSequences(lowRest, most))),
    ...(from <= to ? join(from, to, byteSequences(least, most)) : []),
    ...(isToMost ? [] : join(b, b, byteSequences(least, highRest))),
  ]
}

function byteClass(ranges: ByteClass): string {
  return `[${ranges.map(([from, to]) => (from === to ? `${byteEscape(from)}${byteEscape(from)}` : asciiRange([from, to]))).join('')}]`
}
