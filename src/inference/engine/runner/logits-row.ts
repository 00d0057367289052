/**
 * One position's row of what a step returned. Knows nothing of who reads it.
 */
import type { StepResult } from './step-model.js'

/** One row of what a step returned; a view is valid until the next step. */
export interface LogitsRow {
  readonly logits: Float32Array | null
  readonly logprobs: Float32Array | null
  readonly probabilities: Float32Array | null
}

/** The row's log-probabilities, which its choice asked for. */
export function logprobsOf({ logprobs }: Pick<LogitsRow, 'logprobs'>): Float32Array {
  if (logprobs === null) throw new Error('step did not fetch log-probabilities')
  return logprobs
}

/** Views of row `index`; valid as long as the result is. */
export function logitsRow(result: StepResult, index: number, vocabularySize: number): LogitsRow {
  const cut = (rows: Float32Array): Float32Array => rows.subarray(index * vocabularySize, (index + 1) * vocabularySize)
  return {
    logits: result.logits === null ? null : cut(result.logits),
    logprobs: result.logprobs === null ? null : cut(result.logprobs),
    probabilities: result.probabilities === null ? null : cut(result.probabilities),
  }
}
