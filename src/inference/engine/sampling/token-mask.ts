/**
 * Masks of structured output: which tokens may come next, decided token by token by something outside the engine.
 *
 * The engine knows nothing of grammars. It asks for a mask right before a token is sampled and tells which token was taken.
 * A mask acts on the row before its log-probabilities are taken: what is reported is the distribution among allowed tokens,
 * as in vLLM, where the grammar's bitmask is applied to the logits first.
 */

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
  /** A token was taken: the one sampled under the last mask. */
  accept(tokenId: number): void
}

/**
 * Log-probabilities among the allowed tokens: the rest is impossible, and what is left sums to one.
 *
 * @param logprobs [V], log-softmax of the whole row; not changed
 * @returns a new row, or null if no token with a finite value is allowed
 */
export function maskLogprobs(logprobs: Float32Array, mask: TokenBitmask): Float32Array | null {
  const masked = maskScores(logprobs, mask)
  let top = Number.NEGATIVE_INFINITY
  for (let id = 0; id < masked.length; id++) top = Math.max(top, masked[id] as number)
  if (Number.isNaN(top)) return masked
  if (top === Number.NEGATIVE_INFINITY) return null
  let sum = 0
  for (let id = 0; id < masked.length; id++) {
    const value = masked[id] as number
    if (value !== Number.NEGATIVE_INFINITY) sum += Math.exp(value - top)
  }
  const offset = top + Math.log(sum)
  for (let id = 0; id < masked.length; id++) masked[id] = (masked[id] as number) - offset
  return masked
}

/** The scores of allowed tokens, -inf elsewhere. */
export function maskScores(scores: Float32Array, mask: TokenBitmask): Float32Array {
  const masked = new Float32Array(scores.length).fill(Number.NEGATIVE_INFINITY)
  for (let word = 0; word * 32 < scores.length; word++) {
    // Masks are mostly runs of all or nothing.
    let bits = mask[word] ?? 0
    const start = word * 32
    if (bits === 0xffffffff) {
      masked.set(scores.subarray(start, start + 32), start)
      continue
    }
    for (; bits !== 0; bits &= bits - 1) {
      const id = start + 31 - Math.clz32(bits & -bits)
      if (id < scores.length) masked[id] = scores[id] as number
    }
  }
  return masked
}
