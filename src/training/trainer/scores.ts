/**
 * Forward passes without a gradient: log-probabilities of the trained tokens of rows under one policy.
 */
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { Learner, Policy } from './learner/learner.js'
import type { RowBatch } from './row-batch.js'

/** Log-probabilities of a batch's trained tokens, padding at the end. */
export type Score = (batch: RowBatch) => Promise<Float32Array>

/** A frozen policy: an adapter, or null for the base model. */
export type ReferencePolicy = AdapterWeights | null

/** Under the learner's weights as they are at each call. */
export function scoreOf(learner: Learner, policy: Policy = 'current'): Score {
  return (batch) => learner.score(batch, policy)
}

/** Under a reference; `start` is the learner as it is at each call. */
export async function scoreOfReference(learner: Learner, reference: ReferencePolicy | 'start'): Promise<Score> {
  if (reference === 'start') return scoreOf(learner)
  if (reference === null) return scoreOf(learner, 'base')
  await learner.place('reference', reference)
  return scoreOf(learner, 'reference')
}
