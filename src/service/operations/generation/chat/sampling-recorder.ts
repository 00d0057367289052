/**
 * How the tokens of a choice were drawn, as the engine tells it → the record that stands beside its token ids
 * (`contract/wire/sampling-record.ts`), of the whole choice and of each part of a stream.
 */
import { append } from '#base/util/lists.js'
import type { SamplingRecord } from '#contract/wire/sampling-record.js'
import type { DeltaEvent, SamplingParameters } from '#inference/host/protocol.js'

/** What of a request's sampling is repeated beside its tokens. */
export type RepeatedSampling = Pick<SamplingParameters, 'temperature' | 'topP' | 'topK' | 'minP' | 'beam'>

export class SamplingRecorder {
  readonly #rules: Pick<SamplingRecord, 'temperature' | 'top_p' | 'top_k' | 'min_p'>
  readonly #logprobs: number[] = []
  readonly #counts: number[] = []
  readonly #ids: number[] = []
  readonly #unmodelled = new Set<string>()
  #isPlain = true

  constructor({ temperature, topP, topK, minP, beam = null }: RepeatedSampling) {
    // nothing is drawn in a search; below 0.01 there are only greedy requests (`chat-sampling.ts`)
    const asDrawn = beam === null ? temperature : 1
    this.#rules = { temperature: asDrawn < 0.01 ? 0 : asDrawn, top_p: topP, top_k: topK, min_p: minP }
  }

  /** @returns the record of the delta's own tokens; undefined where all were drawn plainly */
  add({ tokenIds, logprobs, drawn }: DeltaEvent): SamplingRecord | undefined {
    const start = this.#logprobs.length
    const firstId = this.#ids.length
    const unmodelled = new Set<string>()
    for (let t = 0; t < tokenIds.length; t++) {
      const draw = drawn?.[t] ?? null
      this.#logprobs.push(Math.min(0, draw?.logprob ?? logprobs[t]?.logprob ?? 0))
      this.#counts.push(draw?.keptIds?.length ?? 0)
      append(this.#ids, draw?.keptIds ?? [])
      for (const name of draw?.unmodelled ?? []) unmodelled.add(name)
    }
    if (drawn === undefined) return undefined
    this.#isPlain = false
    for (const name of unmodelled) this.#unmodelled.add(name)
    return {
      ...this.#rules,
      logprobs: this.#logprobs.slice(start),
      kept: { counts: this.#counts.slice(start), ids: this.#ids.slice(firstId) },
      unmodelled: [...unmodelled],
    }
  }

  /** @returns undefined where all tokens were drawn plainly */
  whole(): SamplingRecord | undefined {
    if (this.#isPlain) return undefined
    return {
      ...this.#rules,
      logprobs: this.#logprobs,
      kept: { counts: this.#counts, ids: this.#ids },
      unmodelled: [...this.#unmodelled],
    }
  }
}
