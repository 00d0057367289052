/**
 * Encoding of text by a BPE vocabulary: words from the pre-tokenizer, starting symbols from bytes or characters, merges.
 */
import { mergeSymbols } from './bpe.js'
import { byteToCharacter, toByteLevelText } from './byte-level.js'
import type { MergeTable } from './merge-table.js'
import type { Splitter } from './pre-tokenizer.js'
import { WordCache } from './word-cache.js'

export interface BpeVocabulary {
  readonly tokenToId: ReadonlyMap<string, number>
  readonly merges: MergeTable
  /** Starting symbols are the bytes of the word (byte-level alphabet) or its characters. */
  readonly symbols: 'bytes' | 'characters'
  /** With characters: an unknown one becomes the `<0xNN>` tokens of its bytes where these exist. */
  readonly byteFallback: boolean
  /** What an unknown symbol becomes; null drops it. */
  readonly unknownId: number | null
  /** Several unknown symbols in a row become one unknown token. */
  readonly fusesUnknown: boolean
  /** A word that is a token as a whole is taken as it is, even if no merge leads there. */
  readonly ignoresMerges: boolean
}

const encoder = new TextEncoder()

/** Name of a byte's token in SentencePiece-style vocabularies. */
export const byteTokenName = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`

/** A symbol without an id: takes part in no merge and is dropped at the end. */
const NO_TOKEN = -2

/**
 * Returns a function that appends the token ids of a text to a list.
 *
 * @param splitter cuts the text into words; words are tokenized apart
 */
export function createBpeEncoder(vocabulary: BpeVocabulary, splitter: Splitter): (text: string, out: number[]) => void {
  const { tokenToId, merges, unknownId, ignoresMerges } = vocabulary
  const cache = new WordCache()
  const startingSymbols = vocabulary.symbols === 'bytes' ? byteSymbols(vocabulary) : characterSymbols(vocabulary)

  const encodeWord = (word: string): readonly number[] => {
    if (ignoresMerges) {
      const name = vocabulary.symbols === 'bytes' ? toByteLevelText(encoder.encode(word)) : word
      const whole = tokenToId.get(name)
      if (whole !== undefined) return [whole]
    }
    const tokens: number[] = []
    mergeSymbols(startingSymbols(word), merges, tokens)
    if (vocabulary.fusesUnknown) return tokens.filter((id, i) => id !== unknownId || tokens[i - 1] !== unknownId)
    return tokens.includes(NO_TOKEN) ? tokens.filter((id) => id !== NO_TOKEN) : tokens
  }

  return (text, out) => {
    splitter(text, (word) => {
      let tokens = cache.get(word)
      if (tokens === undefined) {
        tokens = encodeWord(word)
        cache.set(word, tokens)
      }
      for (const id of tokens) out.push(id)
    })
  }
}

function byteSymbols({ tokenToId, unknownId }: BpeVocabulary): (word: string) => number[] {
  const byteIds = byteToCharacter.map((character) => tokenToId.get(character) ?? unknownId ?? NO_TOKEN)
  return (word) => Array.from(encoder.encode(word), (byte) => byteIds[byte] ?? NO_TOKEN)
}

function characterSymbols(vocabulary: BpeVocabulary): (word: string) => number[] {
  const { tokenToId, byteFallback, unknownId } = vocabulary
  const byteIds = Array.from({ length: 256 }, (_, byte) =>
    byteFallback ? tokenToId.get(byteTokenName(byte)) : undefined,
  )
  return (word) => {
    const symbols: number[] = []
    for (const character of word) {
      const id = tokenToId.get(character)
      if (id !== undefined) {
        symbols.push(id)
        continue
      }
      const bytes = Array.from(encoder.encode(character), (byte) => byteIds[byte])
      for (const byteId of bytes.includes(undefined) ? [unknownId ?? NO_TOKEN] : bytes) symbols.push(byteId ?? NO_TOKEN)
    }
    return symbols
  }
}
