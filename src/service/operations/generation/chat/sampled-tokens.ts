/**
 * Collects the exact tokens and log-probabilities of an answer that comes in chunks, for formats that have no place for
 * them. Training needs the tokens that were sampled, not the text tokenized again.
 */
import { joinSampling, type SampledPart } from '#base/sampling-record.js'
import { append } from '#base/util/lists.js'
import type { ChatChunk } from '#contract/wire/chat-completions.js'
import type { SamplingRecord } from '#contract/wire/sampling-record.js'

/** Exact tokens of an answer with one choice. */
export interface SampledTokens {
  readonly promptTokenIds: readonly number[]
  readonly tokenIds: readonly number[]
  /** Of each of `tokenIds`. */
  readonly logprobs: readonly number[]
  /** How they were drawn; undefined: plainly. */
  readonly sampling: SamplingRecord | undefined
}

export class TokenRecorder {
  #promptTokenIds: readonly number[] = []
  readonly #tokenIds: number[] = []
  readonly #logprobs: number[] = []
  readonly #parts: SampledPart<SamplingRecord>[] = []

  add(chunk: ChatChunk): void {
    // a prompt may be longer than the arguments of a call can be
    if (this.#promptTokenIds.length === 0) this.#promptTokenIds = chunk.prompt_token_ids ?? []
    for (const choice of chunk.choices) {
      const logprobs = (choice.logprobs?.content ?? []).map(({ logprob }) => logprob)
      append(this.#tokenIds, choice.token_ids ?? [])
      append(this.#logprobs, logprobs)
      this.#parts.push({ logprobs, sampling: choice.sampling })
    }
  }

  /** @returns null where nothing was written, or not every token came with its log-probability */
  recorded(): SampledTokens | null {
    const [promptTokenIds, tokenIds, logprobs] = [this.#promptTokenIds, this.#tokenIds, this.#logprobs]
    const isWhole = promptTokenIds.length > 0 && tokenIds.length > 0 && tokenIds.length === logprobs.length
    return isWhole ? { promptTokenIds, tokenIds, logprobs, sampling: joinSampling(this.#parts) } : null
  }
}
