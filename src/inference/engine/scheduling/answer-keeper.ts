/**
 * Keeps what ended answers have computed, for prompts that go on from them: the next turn of a conversation computes its new tokens alone.
 *
 * Rows of a step are written over by the next one, so keeping is a copy, 5 to 10 ms for an answer of 400 tokens. Answers of a burst end
 * together: all are kept where nobody else is served, and as many as hold nobody up where somebody is.
 */

import type { Seat } from './decode-lane.js'
import type { DecodeLanes } from './decode-lanes.js'
import { PREFIX_BLOCK_TOKENS, type PrefixCache } from './prefix-cache.js'
import { scopeOf } from './prompt.js'

/** So much is copied in one step while others are served: some 10 ms. */
const KEPT_BESIDE_BYTES = 16e6

export class AnswerKeeper {
  readonly #lanes: Pick<DecodeLanes, 'copyTail' | 'remove'>
  readonly #prefixes: Pick<PrefixCache, 'store'> | null

  /** @param prefixes null: nothing is kept */
  constructor(lanes: Pick<DecodeLanes, 'copyTail' | 'remove'>, prefixes: Pick<PrefixCache, 'store'> | null) {
    this.#lanes = lanes
    this.#prefixes = prefixes
  }

  /**
   * Frees the rows of choices that ended in one step, and makes what they hold findable.
   *
   * @param areAlone whether nobody else is served
   */
  free(ended: readonly Seat[], areAlone: boolean): void {
    let leftBytes = areAlone ? Number.POSITIVE_INFINITY : KEPT_BESIDE_BYTES
    for (const seat of ended) {
      if (leftBytes > 0) leftBytes -= this.#keep(seat)
      this.#lanes.remove(seat.choice)
    }
  }

  /** @returns bytes copied */
  #keep({ active, choice, prompt }: Seat): number {
    if (this.#prefixes === null) return 0
    const { promptTokenIds } = active.request
    const extra = prompt.cache.lengthOf(0) % PREFIX_BLOCK_TOKENS
    const cache = this.#lanes.copyTail(choice, extra)
    if (cache === null) return 0
    const from = promptTokenIds.length - extra
    const ids = [...promptTokenIds, ...choice.outputIds].slice(0, from + cache.lengthOf(0))
    this.#prefixes.store(ids, scopeOf(active), { cache, from })
    return cache.sizeBytes
  }
}
