/**
 * Cutting text where no token of a vocabulary can reach across.
 *
 * Vocabularies without a pre-tokenizer (SentencePiece style) merge over the whole text, which makes a long text one
 * long word. Two neighbouring characters that are neighbours in no token can never be merged, so cutting between them
 * changes nothing and gives short, cacheable words back.
 */
import type { Splitter } from './pre-tokenizer.js'

/** Enough for every code point; a pair is `first * PAIR_BASE + second`. */
const PAIR_BASE = 0x110000

/**
 * A splitter that cuts between characters which are neighbours in none of the tokens.
 *
 * @param fusesUnknown whether neighbours that are no tokens become one unknown token, which a cut would part
 */
export function splitWhereNothingMerges(tokens: Iterable<string>, fusesUnknown: boolean): Splitter {
  const neighbours = new Set<number>()
  const known = new Set<number>()
  for (const token of tokens) {
    let previous = -1
    if (fusesUnknown && (token.length === 1 || (token.codePointAt(0) ?? 0) > 0xffff))
      known.add(token.codePointAt(0) ?? 0)
    for (const character of token) {
      const code = character.codePointAt(0) ?? 0
      if (previous !== -1) neighbours.add(previous * PAIR_BASE + code)
      previous = code
    }
  }
  const isFused = (first: number, second: number): boolean => fusesUnknown && !known.has(first) && !known.has(second)
  return (piece, emit) => {
    let start = 0
    let previous = -1
    for (let i = 0; i < piece.length; ) {
      const code = piece.codePointAt(i) ?? 0
      if (previous !== -1 && !neighbours.has(previous * PAIR_BASE + code) && !isFused(previous, code)) {
        emit(piece.slice(start, i))
        start = i
      }
      previous = code
      i += code > 0xffff ? 2 : 1
    }
    if (start < piece.length) emit(piece.slice(start))
  }
}
