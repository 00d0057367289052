/**
 * Guesses the next tokens of an answer from what came after the same words before, for verification in one step.
 *
 * Structured and repetitive answers repeat their prompt or themselves. The last three tokens are looked up in everything said so
 * far, and what followed is proposed. A guess is only ever compared with the token that is sampled anyway, so it can change the
 * time an answer takes and nothing else. Guesses get longer while they hold and shorter when they fail, and where they do not
 * pay they rest for a while. Source: prompt lookup decoding, as in vLLM's n-gram speculation.
 */

/** Tokens that must repeat before what followed is proposed. */
const NGRAM = 3
const FIRST_LENGTH = 3
const LONGEST = 7
/** Accepted tokens a guess must have on average: a step of several tokens costs up to half as much again as one. */
const WORTH = 0.6
/** Weight of the latest guess in that average. */
const NEWEST = 0.25
/** Tokens without guesses after they did not pay; doubled as long as that goes on. */
const FIRST_REST = 8
const LONGEST_REST = 128

/** The guesses of one choice. */
export class PromptLookup {
  readonly #promptIds: readonly number[]
  /** By the last three tokens: where what followed them the last time begins. */
  readonly #followers = new Map<number, number>()
  /** Tokens that are in the index, each with all before it. */
  #indexed = NGRAM - 1
  #length = FIRST_LENGTH
  #accepted = 1
  #rest = FIRST_REST
  #resting = 0

  constructor(promptIds: readonly number[]) {
    this.#promptIds = promptIds
  }

  /**
   * Tokens that may come next; often none.
   *
   * @param outputIds the answer so far
   * @param limit the most that are wanted
   */
  propose(outputIds: readonly number[], limit: number): readonly number[] {
    if (limit <= 0) return []
    if (this.#resting > 0) {
      this.#resting--
      return []
    }
    const start = this.#promptIds.length
    const count = start + outputIds.length
    const at = (i: number): number => (i < start ? this.#promptIds[i] : outputIds[i - start]) ?? 0
    // Not the last three themselves: nothing has followed them yet.
    for (; this.#indexed < count - 1; this.#indexed++) this.#followers.set(keyAt(this.#indexed, at), this.#indexed + 1)
    const from = count < NGRAM ? undefined : this.#followers.get(keyAt(count - 1, at))
    if (from === undefined) return []
    const guess: number[] = []
    // What goes beyond the end repeats the guess itself: a loop goes on.
    for (let i = from; guess.length < Math.min(limit, this.#length); i++) {
      guess.push(i < count ? at(i) : (guess[i - count] ?? 0))
    }
    return guess
  }

  /** Tells how many tokens of a guess were right. */
  record(proposed: number, accepted: number): void {
    this.#length = accepted === proposed ? Math.min(LONGEST, 2 * this.#length) : Math.max(2, accepted + 1)
    this.#accepted += NEWEST * (accepted - this.#accepted)
    if (this.#accepted >= 1) this.#rest = FIRST_REST
    if (this.#accepted >= WORTH) return
    this.#resting = this.#rest
    this.#rest = Math.min(LONGEST_REST, 2 * this.#rest)
    // One good guess afterwards goes on, one bad one rests again.
    this.#accepted = WORTH
  }
}

/** The three tokens that end at `last` as one number; a collision costs one bad guess. */
function keyAt(last: number, at: (i: number) => number): number {
  return (at(last - 2) * 2 ** 18 + at(last - 1)) * 2 ** 18 + at(last)
}
