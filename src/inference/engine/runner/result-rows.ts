/**
 * Single rows of what a step of the graph returned.
 */
import type { LogitsRow } from '../logits-row.js'
import type { StepResult } from './step-model.js'

/** Views of row `index`; valid as long as the result is. */
export function logitsRow(result: StepResult, index: number, vocabularySize: number): LogitsRow {
  const cut = (rows: Float32Array): Float32Array => rows.subarray(index * vocabularySize, (index + 1) * vocabularySize)
  return {
    logits: result.logits === null ? null : cut(result.logits),
    logprobs: result.logprobs === null ? null : cut(result.logprobs),
    probabilities: result.probabilities === null ? null : cut(result.probabilities),
  }
}
