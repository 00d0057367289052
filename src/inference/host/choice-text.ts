/**
 * Token events of one choice to text, stop strings applied, and logprobs with their texts.
 */
import type { TokenEvent } from '#inference/engine/generation.js'
import type { RankedToken } from '#inference/engine/sampling/logprobs.js'
import { createStreamDecoder, type StreamDecoder } from '#model/text/stream-decoder.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import type { DeltaEvent, FinishReason, PositionLogprobs, SamplingParameters, TokenLogprob } from './protocol.js'
import { createStopMatcher, type StopMatcher } from './stop-strings.js'

/** A delta without its address. */
export type ChoiceDelta = Omit<DeltaEvent, 'type' | 'id' | 'choice'>

const SPACE = 0x20

/** The text of one choice as it grows. */
export class ChoiceText {
  readonly #tokenizer: Tokenizer
  readonly #sampling: SamplingParameters
  readonly #decoder: StreamDecoder
  /** Logprob texts show control tokens whatever the answer's text does. */
  readonly #logprobDecoder: StreamDecoder
  readonly #stops: StopMatcher
  #outputCount = 0

  constructor(tokenizer: Tokenizer, sampling: SamplingParameters) {
    this.#tokenizer = tokenizer
    this.#sampling = sampling
    this.#decoder = createStreamDecoder(tokenizer, { skipSpecialTokens: sampling.skipSpecialTokens })
    this.#logprobDecoder = createStreamDecoder(tokenizer)
    this.#stops = createStopMatcher(sampling.stop, sampling.includeStopStrInOutput)
  }

  /** One token further. A stop string found here overrides how the token itself ended the choice, except by a stop token. */
  push(event: TokenEvent): ChoiceDelta {
    this.#outputCount++
    const tokenIds = [event.tokenId]
    const logprobs = [this.#positionLogprobs(event)]
    const drawn = event.drawn === undefined ? {} : { drawn: [event.drawn] }
    const endsByToken = event.finishReason === 'stop'
    if (endsByToken) {
      const own = this.#sampling.includeStopStrInOutput ? this.#decoder.push(event.tokenId) : ''
      const text = this.#stops.pass(own + this.#decoder.flush())
      return { text, tokenIds, logprobs, ...drawn, finishReason: 'stop', stopReason: event.stopReason }
    }
    const { finishReason, stopReason } = event
    const isLast = finishReason !== null
    const added = this.#decoder.push(event.tokenId) + (isLast ? this.#decoder.flush() : '')
    if (this.#outputCount < this.#sampling.minTokens) {
      return { text: this.#stops.pass(added), tokenIds, logprobs, ...drawn, finishReason, stopReason }
    }
    const { text, stop } = this.#stops.push(added)
    if (stop !== null) return { text, tokenIds, logprobs, ...drawn, finishReason: 'stop', stopReason: stop }
    const shown = isLast ? text + this.#stops.flush() : text
    return { text: shown, tokenIds, logprobs, ...drawn, finishReason, stopReason }
  }

  /** The end from outside. */
  end(finishReason: FinishReason): ChoiceDelta {
    const text = this.#stops.pass(this.#decoder.flush())
    return { text, tokenIds: [], logprobs: [], finishReason, stopReason: null }
  }

  #positionLogprobs({ tokenId, logprob, top }: TokenEvent): PositionLogprobs {
    const text = this.#logprobDecoder.push(tokenId)
    return {
      id: tokenId,
      logprob,
      text,
      bytes: bytesOf(this.#tokenizer, tokenId, this.#outputCount === 1),
      top: top.map((token) => this.#alternative(token)),
    }
  }

  #alternative({ id, logprob }: RankedToken): TokenLogprob {
    const decoder = createStreamDecoder(this.#tokenizer, { isContinuation: this.#outputCount > 1 })
    const text = decoder.push(id)
    return { id, logprob, text, bytes: bytesOf(this.#tokenizer, id, this.#outputCount === 1) }
  }
}

/**
 * The bytes that a token adds to a text: also those of a part of a character, whose text comes with its last part.
 *
 * @param isFirst the text begins with it
 */
export function bytesOf(tokenizer: Tokenizer, id: number, isFirst: boolean): number[] {
  const bytes = tokenizer.tokenBytes(id)
  const dropsSpace = isFirst && tokenizer.dropsLeadingSpace && bytes[0] === SPACE
  return [...(dropsSpace ? bytes.subarray(1) : bytes)]
}
