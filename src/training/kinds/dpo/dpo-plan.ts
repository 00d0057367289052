/**
 * The plan of a preference job: its outline, and one more pass over the pairs for masks and sizes.
 */
import { answers } from '#formats/rows/preference-data.js'
import { rowCost } from '#training/rows/training-batch.js'
import { measurementCount } from '#training/trainer/epochs/validation.js'
import type { JobContext } from '#training/trainer/job.js'
import type { BatchSize } from '#training/trainer/memory.js'
import {
  describeMask,
  type JobPlan,
  type PlannedSequence,
  SHOWN_SEQUENCES,
  sampleRows,
} from '#training/trainer/plan/job-plan.js'
import { type DpoJob, memoryNeeds, outlineDpo } from './dpo-job.js'
import { pairBatchSizes } from './dpo-rows.js'

/**
 * Plans a preference job without running any of it; a job that stops early does less.
 *
 * @throws what reading the rows throws
 */
export async function planDpo(
  job: DpoJob,
  context: JobContext,
  textOf: (ids: readonly number[]) => string,
): Promise<JobPlan> {
  const { survey, hyperparameters, validation } = job
  const { epochs, referenceFree } = hyperparameters
  const started = outlineDpo(job, context)
  const sequences: PlannedSequence[] = []
  const sample: Parameters<typeof sampleRows>[0][number][] = []
  let tokenCount = 0
  let cost = 0
  for await (const batch of job.openBatches()) {
    tokenCount += batch.tokenCount
    cost += costOf(pairBatchSizes(batch.pairs, hyperparameters))
    for (const pair of batch.pairs) {
      for (const [a, answer] of answers(pair).entries()) {
        if (sequences.length >= SHOWN_SEQUENCES) break
        const source = `line ${pair.lineNumber}, ${a === 0 ? 'chosen' : 'rejected'}`
        sequences.push({ source, advantage: null, weight: null, ...describeMask(answer, textOf) })
        sample.push(answer)
      }
    }
  }
  let validationCost = 0
  if (validation !== null) {
    for await (const { pairs } of validation.openBatches()) validationCost += costOf(pairBatchSizes(pairs))
  }
  const referenceCost = referenceFree ? 0 : cost + validationCost
  const measurements = measurementCount(survey.trainableBatchCount, hyperparameters)
  return {
    started,
    rowCount: 2 * survey.pairCount * epochs,
    tokens: tokenCount * epochs,
    trainedTokens: survey.answerTokenCount * epochs,
    ...memoryNeeds(job),
    work: {
      gradient: cost * epochs,
      forward: referenceCost + validationCost * measurements,
      sessionCount: 1 + (referenceFree ? 0 : 1) + (validation === null ? 0 : 1),
    },
    groups: [],
    groupCount: 0,
    sequences,
    sequenceCount: 2 * survey.pairCount,
    sample: sampleRows(sample),
    precision: hyperparameters.precision,
  }
}

function costOf(sizes: readonly BatchSize[]): number {
  return sizes.reduce((sum, { rows, length }) => sum + rows * rowCost(length), 0)
}
