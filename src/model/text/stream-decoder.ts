/**
 * Token ids to text, one token at a time, for streaming.
 *
 * Works on the bytes of the tokens, so a character that is split over tokens comes out whole with its last token and
 * the pieces joined equal `tokenizer.decode` of all ids. Each token costs only its own bytes.
 */
import type { DecodeOptions, Tokenizer } from './tokenizer.js'

export interface StreamDecoder {
  /** The text that this token completes; empty while a character is unfinished. */
  push(id: number): string
  /** The replacement character for an unfinished character, or nothing. The decoder is then as new. */
  flush(): string
}

export interface StreamDecoderOptions extends DecodeOptions {
  /** The tokens stand in the middle of a text: a leading space of SentencePiece vocabularies is kept (default false). */
  readonly isContinuation?: boolean
}

/**
 * Creates a decoder for one sequence of tokens.
 *
 * @param options.skipSpecialTokens leave control tokens out (default false)
 */
export function createStreamDecoder(
  tokenizer: Tokenizer,
  { skipSpecialTokens = false, isContinuation = false }: StreamDecoderOptions = {},
): StreamDecoder {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let isAtStart = !isContinuation
  const dropLeadingSpace = (text: string): string => {
    if (!isAtStart || text === '') return text
    isAtStart = false
    return tokenizer.dropsLeadingSpace && text.startsWith(' ') ? text.slice(1) : text
  }
  return {
    push(id) {
      if (skipSpecialTokens && tokenizer.isSpecial(id)) return ''
      return dropLeadingSpace(decoder.decode(tokenizer.tokenBytes(id), { stream: true }))
    },
    flush() {
      const rest = dropLeadingSpace(decoder.decode())
      isAtStart = !isContinuation
      return rest
    },
  }
}
