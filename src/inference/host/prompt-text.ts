/**
 * The prompt as the answer shows it: its text, and its positions with their log-probabilities.
 */
import type { PromptTokenEvent } from '#inference/engine/generation.js'
import { createStreamDecoder, type StreamDecoder } from '#model/text/stream-decoder.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import { bytesOf } from './choice-text.js'
import type { PromptPosition, TokenLogprob } from './protocol.js'

/** Positions of one prompt as they are computed, in order. */
export class PromptText {
  readonly #tokenizer: Tokenizer
  readonly #skipSpecialTokens: boolean
  readonly #decoder: StreamDecoder
  #hasBegun = false

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
      return { ...token, text, bytes: bytesOf(this.#tokenizer, token.id, false) }
    })
    return this.#position(tokenId, { logprob, rank, top: alternatives })
  }

  #position(id: number, rest: Pick<PromptPosition, 'logprob' | 'rank' | 'top'>): PromptPosition {
    const text = this.#decoder.push(id)
    const bytes = bytesOf(this.#tokenizer, id, !this.#hasBegun)
    this.#hasBegun = true
    const isHidden = this.#skipSpecialTokens && this.#tokenizer.isSpecial(id)
    return { id, text, bytes, isHidden, ...rest }
  }
}
