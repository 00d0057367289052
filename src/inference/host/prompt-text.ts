/**
 * The prompt as the answer shows it: its text, and its positions with their log-probabilities.
 */
import type { PromptTokenEvent } from '#inference/engine/generation.js'
import { createStreamDecoder, type StreamDecoder } from '#model/text/stream-decoder.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import type { PromptPosition, TokenLogprob } from './protocol.js'

const utf8 = new TextEncoder()

/** Positions of one prompt as they are computed, in order. */
export class PromptText {
  readonly #tokenizer: Tokenizer
  readonly #skipSpecialTokens: boolean
  readonly #decoder: StreamDecoder

  constructor(tokenizer: Tokenizer, { skipSpecialTokens }: { readonly skipSpecialTokens: boolean }) {
    this.#tokenizer = tokenizer
    this.#skipSpecialTokens = skipSpecialTokens
    this.#decoder = createStreamDecoder(tokenizer)
  }

  /** The first position: nothing is before it that could make it likely. */
  first(tokenId: number): PromptPosition {
    return this.#position(tokenId, { logprob: null, rank: null, top: [] })
  }

  next({ tokenId, logprob, rank, top }: PromptTokenEvent): PromptPosition {
    const alternatives = top.map((token): TokenLogprob => {
      const text = createStreamDecoder(this.#tokenizer, { isContinuation: true }).push(token.id)
      return { ...token, text, bytes: [...utf8.encode(text)] }
    })
    return this.#position(tokenId, { logprob, rank, top: alternatives })
  }

  #position(id: number, rest: Pick<PromptPosition, 'logprob' | 'rank' | 'top'>): PromptPosition {
    const text = this.#decoder.push(id)
    const isHidden = this.#skipSpecialTokens && this.#tokenizer.isSpecial(id)
    return { id, text, bytes: [...utf8.encode(text)], isHidden, ...rest }
  }
}
