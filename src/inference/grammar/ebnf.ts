/**
 * EBNF as people write it (GBNF of llama.cpp, xgrammar's own) → EBNF whose classes, points and texts xgrammar 0.1.27 reads as they are
 * meant: characters, not bytes. Rules, groups and repetitions are left as they stand.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { quoted } from './grammar-spec.js'
import { checkHeap } from './heap-limit.js'
import { PatternError, parsePattern } from './schema/pattern-reader.js'
import { textCharacter } from './schema/pattern-writer.js'

const TOKEN =
  /(?<space>\s+|#[^\n]*)|(?<text>"(?:\\[\s\S]|[^"\\])*")|(?<class>\[\^?(?:\\[\s\S]|[^\]\\])*\])|(?<name>[A-Za-z_-][\w.-]*)|(?<point>\.)|(?<other>[\s\S])/uy
/** Escapes of C, which a regular expression does not have; of those that both have the meaning is one. */
const ESCAPES: Readonly<Record<string, number>> = { a: 7, b: 8, e: 27, f: 12, n: 10, r: 13, t: 9, v: 11 }
const ANY: readonly [number, number] = [0, 0x10ffff]

/** @throws {InvalidRequestError} `invalid_grammar` naming the line */
export function plainEbnf(grammar: string): string {
  const written: string[] = []
  let line = 1
  TOKEN.lastIndex = 0
  for (let found = TOKEN.exec(grammar); found !== null; found = TOKEN.exec(grammar)) {
    const [token] = found
    const { text, class: characters, point } = found.groups ?? {}
    checkHeap()
    written.push(
      located(line, token, () => {
        if (text !== undefined) return quoted(textOf(text.slice(1, -1)))
        if (characters !== undefined) return classRule(characters)
        return point === undefined ? token : textCharacter([ANY])
      }),
    )
    for (const character of token) if (character === '\n') line++
  }
  return written.join('')
}

function textOf(inside: string): string {
  const text = inside.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{([0-9a-fA-F]{1,8})\}|([\s\S]))/gu,
    (_, x?: string, u?: string, long?: string, braced?: string, sign = '') => {
      const hex = x ?? u ?? long ?? braced
      const code = hex === undefined ? escaped(String(sign)) : Number.parseInt(hex, 16)
      if (code > 0x10ffff) throw new PatternError('names no character')
      // halves that follow each other make one character
      return String.fromCodePoint(code)
    },
  )
  const half = /\p{Surrogate}/u.exec(text)
  if (half !== null) throw new PatternError('holds half of a surrogate pair, which is no character')
  return text
}

function escaped(sign: string): number {
  const code = ESCAPES[sign] ?? (sign === '0' ? 0 : undefined)
  if (code !== undefined) return code
  if (/[A-Za-z0-9]/.test(sign)) throw new PatternError(`uses "\\${sign}", which is not known`)
  return sign.codePointAt(0) ?? 0
}

/** A class is one of a regular expression, where what stands first is no sign. */
function classRule(characters: string): string {
  if (/^\[\^?\]$/.test(characters)) throw new PatternError('is empty')
  const own = characters.replace(/\\([\s\S])/gu, (whole, sign: string) =>
    sign === 'a' || sign === 'e' ? `\\x${(ESCAPES[sign] ?? 0).toString(16).padStart(2, '0')}` : whole,
  )
  const node = parsePattern(own)
  // a sequence of the one class
  const [part] = node.kind === 'sequence' ? node.parts : [node]
  if (part?.kind !== 'characters') throw new PatternError('is no class of characters')
  return textCharacter(part.ranges)
}

function located<T>(line: number, token: string, read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof PatternError)) throw cause
    throw new InvalidRequestError('invalid_grammar', `grammar, line ${line}: ${token.slice(0, 100)} ${cause.message}`, {
      cause,
    })
  }
}
