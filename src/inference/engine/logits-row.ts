/**
 * One row of a step's results, for one position: logits, log-probabilities, probabilities, as far as the step was
 * asked for them. Knows nothing of who computes or reads it.
 */

/** What of a row a step computes. */
export type StepFetch = 'logits' | 'logprobs' | 'probabilities'

/** One row of what a step returned; a view is valid until the next step. Null is what the step was not asked for. */
export interface LogitsRow {
  readonly logits: Float32Array | null
  /** Raw log-softmax of the logits. */
  readonly logprobs: Float32Array | null
  /** Softmax at the temperature that was asked for. */
  readonly probabilities: Float32Array | null
}

/** The row's log-probabilities, which its choice asked for. */
export function logprobsOf({ logprobs }: Pick<LogitsRow, 'logprobs'>): Float32Array {
  if (logprobs === null) throw new Error('step did not fetch log-probabilities')
  return logprobs
}

/** A row that outlives its step. */
export function copyRow({ logits, logprobs, probabilities }: LogitsRow): LogitsRow {
  return {
    logits: logits?.slice() ?? null,
    logprobs: logprobs?.slice() ?? null,
    probabilities: probabilities?.slice() ?? null,
  }
}
