/**
 * Masks of structured output: which tokens may come next, decided token by token by something outside the engine.
 *
 * The engine knows nothing of grammars. It asks for a mask right before a token is sampled and tells which token was taken.
 * A mask acts on the row before its log-probabilities are taken: what is reported is the distribution among allowed tokens,
 * as in vLLM, where the grammar's bitmask is applied to the logits first.
 */

import type { Draw } from './sampler.js'

/** Allowed tokens: bit `id & 31` of word `id >>> 5` is 1 where a token may come; at least ceil(V / 32) words. */
export type TokenBitmask = Uint32Array

/**
 * The mask of one choice while it is generated. All calls happen between steps, on the engine's thread, and delay every
 * request in the batch: have the answer ready, or say that it is not.
 */
export interface TokenMask {
  /**
   * Called before `next`: null if the next mask is there, else what settles when it is. The choice sits out until then, the rest of
   * the batch goes on. Absent: it is always there.
   */
  ready?(): Promise<void> | null
  /**
   * Tokens that may come next; null: all of them. Read at once, so the memory may be used again. A mask without any token
   * fails the request.
   */
  next(): TokenBitmask | null
  /** Whether `next` is known to be null now: a step then computes for this choice what it does without a mask. Absent: it is not. */
  readonly isFree?: boolean
  /** A token was taken: the one sampled under the last mask. */
  accept(tokenId: number): void
}

/** The tokens of a mask as runs of neighbouring ids: what reads a row then reads pieces of it, not bits. */
export interface AllowedTokens {
  /** V */
  readonly vocabularySize: number
  readonly count: number
  /** First id, id behind the last, first id of the next run and so on, ascending. */
  readonly edges: readonly number[]
}

export function allowedTokens(mask: TokenBitmask, vocabularySize: number): AllowedTokens {
  const edges: number[] = []
  let last = 0
  for (let word = 0; word * 32 < vocabularySize; word++) {
    const bits = mask[word] ?? 0
    // 1 where a bit differs from the one before it
    let changes = bits ^ ((bits << 1) | last)
    last = bits >>> 31
    for (; changes !== 0; changes &= changes - 1) edges.push(32 * word + 31 - Math.clz32(changes & -changes))
  }
  while ((edges.at(-1) ?? -1) >= vocabularySize) edges.pop()
  if (edges.length % 2 === 1) edges.push(vocabularySize)
  let count = 0
  for (let i = 0; i < edges.length; i += 2) count += (edges[i + 1] as number) - (edges[i] as number)
  return { vocabularySize, count, edges }
}

/**
 * Log of the probability of all allowed tokens together.
 *
 * Where most tokens are allowed, the others are summed: exponentials are what a masked token costs.
 *
 * @param logprobs [V], log-softmax of the whole row
 * @returns -inf if none is possible; not a number if the row's numbers are not
 */
export function logMass(logprobs: Float32Array, { vocabularySize, count, edges }: AllowedTokens): number {
  if (2 * count > vocabularySize) {
    const others = sumOfExp(logprobs, [0, ...edges, vocabularySize], 0)
    // beyond that too little is left of the difference
    if (!(others > 0.5)) return Math.log1p(-others)
  }
  const sum = sumOfExp(logprobs, edges, 0)
  if (Number.isNaN(sum) || sum > SMALL_MASS) return Math.log(sum)
  const top = maxOf(logprobs, edges)
  return top === Number.NEGATIVE_INFINITY ? top : top + Math.log(sumOfExp(logprobs, edges, top))
}

/** Below this the largest is taken out of a sum of exponentials, which would lose its smaller parts. */
const SMALL_MASS = 1e-200

function sumOfExp(row: Float32Array, edges: readonly number[], offset: number): number {
  let sum = 0
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) sum += Math.exp((row[id] as number) - offset)
  }
  return sum
}

function maxOf(row: Float32Array, edges: readonly number[]): number {
  let top = Number.NEGATIVE_INFINITY
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) top = Math.max(top, row[id] as number)
  }
  return top
}

/** The allowed token with the largest score; the first of equals. */
export function argMaxAllowed(scores: Float32Array, { edges }: AllowedTokens): number {
  let best = edges[0] ?? 0
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) if ((scores[id] as number) > (scores[best] as number)) best = id
  }
  return best
}

/**
 * Inverts the cumulative sum of the allowed tokens' probabilities.
 *
 * @param probabilities [V]
 * @returns null if there is too little of them: the small numbers that were lost on the way would count
 */
export function drawAllowed(probabilities: Float32Array, { edges }: AllowedTokens, uniform: number): Draw | null {
  let total = 0
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) total += probabilities[id] as number
  }
  if (!(total > 1e-20)) return null
  let left = uniform * total
  let last = 0
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) {
      const p = probabilities[id] as number
      if (p <= 0) continue
      if (left < p) return drawn(id)
      left -= p
      last = id
    }
  }
  // rounding can leave a sliver above the sum
  return drawn(last)

  function drawn(tokenId: number): Draw {
    return { tokenId, logprob: Math.log((probabilities[tokenId] as number) / total), keptIds: null }
  }
}

/** Ids of the allowed tokens, ascending. */
export function idsOf({ edges }: AllowedTokens): readonly number[] {
  const ids: number[] = []
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) ids.push(id)
  }
  return ids
}

/**
 * Log-probabilities among the allowed tokens: the rest is impossible, and what is left sums to one.
 *
 * @param logprobs [V], log-softmax of the whole row; not changed
 * @param mass what `logMass` says of them
 * @returns a new row
 */
export function maskLogprobs(logprobs: Float32Array, { edges }: AllowedTokens, mass: number): Float32Array {
  const masked = new Float32Array(logprobs.length).fill(Number.NEGATIVE_INFINITY)
  for (let i = 0; i < edges.length; i += 2) {
    const end = edges[i + 1] as number
    for (let id = edges[i] as number; id < end; id++) masked[id] = (logprobs[id] as number) - mass
  }
  return masked
}

/** A new row: the scores of allowed tokens, -inf elsewhere. */
export function maskScores(scores: Float32Array, allowed: AllowedTokens): Float32Array {
  return maskLogprobs(scores, allowed, 0)
}
