/**
 * Keeps what ended answers have computed, for prompts that go on from them: the next turn of a conversation computes its new tokens alone.
 *
 * Rows of a step are written over by the next one, so keeping is a copy, 5 to 10 ms for an answer of 400 tokens. Answers of a burst end
 * together: all are kept where nobody else is served, and as many as hold nobody up where somebody is.
 */

import { PREFIX_BLOCK_TOKENS, type PrefixCache } from './prefix-cache.js'
import { scopeOf } from './prompt.js'
import type { RunningChoices, Seat } from './running-choices.js'

/** So much is copied in one step while others are served: some 10 ms. */
const KEPT_BESIDE_BYTES = 16e6

export class AnswerKeeper {
  readonly #running: Pick<RunningChoices, 'copyTail' | 'remove'>
  readonly #prefixes: Pick<PrefixCache, 'store'> | null

  /** @param prefixes null: nothing is kept */
  constructor(running: Pick<RunningChoices, 'copyTail' | 'remove'>, prefixes: Pick<PrefixCache, 'store'> | null) {
    this.#running = running
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
      this.#running.remove(seat.choice)
    }
  }

  /** @returns bytes copied */
  #keep({ active, choice, prompt }: Seat): number {
    if (this.#prefixes === null) return 0
    const { promptTokenIds } = active.request
    const extra = prompt.sequence.length % PREFIX_BLOCK_TOKENS
    const sequence = this.#running.copyTail(choice, extra)
    if (sequence === null) return 0
    const from = promptTokenIds.length - extra
    const ids = [...promptTokenIds, ...choice.outputIds].slice(0, from + sequence.length)
    this.#prefixes.store(ids, scopeOf(active), { sequence, from })
    return sequence.sizeBytes
  }
}
