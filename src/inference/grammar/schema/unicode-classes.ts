/**
 * Classes of characters that Unicode defines, as ranges: properties (`\p{L}`), and letters that differ by case alone.
 *
 * Both are asked of the engine's own regular expressions (ECMA-262, 22.2.1 and "Canonicalize"), so that they mean what JavaScript's
 * flags `u` and `i` mean.
 */
import { type CodeRange, complement } from './character-class.js'

/** A script alone is a property in other languages. */
const SPELLINGS = ['', 'Script=']
/** Different properties in one thread: V8 keeps ten kilobytes of each. */
const MOST_PROPERTIES = 64

/** UTF-16 of all characters up to U+FFFF but the surrogates, and of those behind. */
const BASIC_BYTES = 2 * (0x10000 - 0x800)
const OTHER_BYTES = 4 * 0x100000

const properties = new Map<string, readonly CodeRange[] | null>()
let everyCharacter: string | null = null
let cases: ReadonlyMap<number, readonly number[]> | null = null

/** The characters of a property as `\p` names it (`L`, `Lu`, `Script=Greek`, `Greek`); null if there is none of that name. */
export function propertyRanges(name: string): readonly CodeRange[] | null {
  const known = properties.get(name)
  if (known !== undefined) return known
  if (!/^\w{1,64}(=\w{1,64})?$/.test(name) || properties.size >= MOST_PROPERTIES) return null
  const found = SPELLINGS.map((spelling) => runsOf(`\\p{${spelling}${name}}`)).find((ranges) => ranges !== null) ?? null
  properties.set(name, found)
  return found
}

/** The ranges with every letter that differs from one of theirs by its case alone. */
export function withBothCases(ranges: readonly CodeRange[]): readonly CodeRange[] {
  cases ??= readCases()
  const added: CodeRange[] = []
  for (const [code, others] of cases) {
    if (!ranges.some(([from, to]) => from <= code && code <= to)) continue
    for (const other of others) added.push([other, other])
  }
  return complement(complement([...ranges, ...added]))
}

function runsOf(source: string): readonly CodeRange[] | null {
  let runs: RegExp
  try {
    runs = new RegExp(`${source}+`, 'gu')
  } catch {
    return null
  }
  return Array.from(allCharacters().matchAll(runs), ([run]): CodeRange => {
    return [run.codePointAt(0) ?? 0, run.codePointAt(run.length - lastLength(run)) ?? 0]
  }).flatMap(splitAtSurrogates)
}

/** Code units of the last character. */
function lastLength(run: string): number {
  const last = run.charCodeAt(run.length - 1)
  return last >= 0xdc00 && last <= 0xdfff ? 2 : 1
}

/** Surrogates are in no text here, so a run may pass over them. */
function splitAtSurrogates([from, to]: CodeRange): readonly CodeRange[] {
  if (from > 0xd7ff || to < 0xe000) return [[from, to]]
  return [
    [from, 0xd7ff],
    [0xe000, to],
  ]
}

function allCharacters(): string {
  if (everyCharacter !== null) return everyCharacter
  // written as bytes: a million small texts would be sixty megabytes
  const bytes = Buffer.alloc(BASIC_BYTES + OTHER_BYTES)
  let at = 0
  for (let code = 0; code <= 0xffff; code++) if (code < 0xd800 || code > 0xdfff) at = bytes.writeUInt16LE(code, at)
  for (let code = 0; code <= 0xfffff; code++) {
    at = bytes.writeUInt16LE(0xd800 + (code >> 10), at)
    at = bytes.writeUInt16LE(0xdc00 + (code & 0x3ff), at)
  }
  everyCharacter = bytes.toString('utf16le')
  return everyCharacter
}

/** By letter: those that the flags `iu` take for it. */
function readCases(): ReadonlyMap<number, readonly number[]> {
  const found = new Map<number, Set<number>>()
  const link = (a: number, b: number): void => {
    const all = new Set([a, b, ...(found.get(a) ?? []), ...(found.get(b) ?? [])])
    for (const code of all) found.set(code, all)
  }
  const single = (text: string): number | null => {
    const code = text.codePointAt(0) ?? 0
    return text === String.fromCodePoint(code) ? code : null
  }
  for (const [from, to] of runsOf('\\p{Changes_When_Casemapped}') ?? []) {
    for (let code = from; code <= to; code++) {
      const letter = String.fromCodePoint(code)
      for (const other of new Set([letter.toLowerCase(), letter.toUpperCase(), letter.toUpperCase().toLowerCase()])) {
        const otherCode = single(other)
        if (otherCode === null || otherCode === code) continue
        if (new RegExp(`^\\u{${code.toString(16)}}$`, 'iu').test(other)) link(code, otherCode)
      }
    }
  }
  return new Map([...found].map(([code, all]) => [code, [...all]]))
}
