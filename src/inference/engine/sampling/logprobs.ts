/**
 * Picks the reported log-probabilities of one position out of a row of raw log-softmax values.
 *
 * Order: the sampled token is reported apart; alternatives are the k most likely tokens by rank, lower id first among
 * equals (the wire merges the two lists, the sampled token first).
 */

/** One token and its raw log-probability. */
export interface RankedToken {
  readonly id: number
  readonly logprob: number
}

/** The lowest reported value: -inf is never sent. */
export const LOWEST_LOGPROB = -9999

/** A log-probability as it is reported. */
export function reportedLogprob(logprob: number): number {
  return Math.max(logprob, LOWEST_LOGPROB)
}

/** 1 + the number of tokens that are more likely than `id`. */
export function rankOf(logprobs: Float32Array, id: number): number {
  const own = logprobs[id] ?? Number.NEGATIVE_INFINITY
  let rank = 1
  for (const logprob of logprobs) if (logprob > own) rank++
  return rank
}

/**
 * The `k` most likely tokens, most likely first.
 *
 * @param logprobs [V]
 */
export function topTokens(logprobs: Float32Array, k: number): readonly RankedToken[] {
  const ranked: { id: number; logprob: number }[] = []
  if (k <= 0) return ranked
  for (let id = 0; id < logprobs.length; id++) {
    const logprob = logprobs[id] as number
    const last = ranked[ranked.length - 1]
    if (ranked.length === k && last !== undefined && logprob <= last.logprob) continue
    if (ranked.length === k) ranked.pop()
    let at = ranked.length
    while (at > 0 && (ranked[at - 1]?.logprob ?? 0) < logprob) at--
    ranked.splice(at, 0, { id, logprob })
  }
  return ranked.map(({ id, logprob }) => ({ id, logprob: reportedLogprob(logprob) }))
}

/** The most likely tokens, then those asked for that are not among them, in the order in which they were asked for. */
export function reportedTokens(
  logprobs: Float32Array,
  { topLogprobs, logprobTokenIds = [] }: { readonly topLogprobs: number; readonly logprobTokenIds?: readonly number[] },
): readonly RankedToken[] {
  const top = topTokens(logprobs, topLogprobs)
  const known = new Set(top.map(({ id }) => id))
  const others = logprobTokenIds.filter((id) => !known.has(id))
  return [...top, ...others.map((id) => ({ id, logprob: reportedLogprob(logprobs[id] ?? Number.NEGATIVE_INFINITY) }))]
}
