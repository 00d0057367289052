/**
 * The plan of an SFT job: its outline, and one more pass over the rows for masks and sizes.
 */
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
import { memoryNeeds, outlineSft, type SftJob } from './sft-job.js'
import { rowBatchSizes } from './sft-rows.js'

/**
 * Plans an SFT job without running any of it; a job that stops early does less.
 *
 * @throws {InvalidRequestError} `learning_rate_count`; what reading the rows throws
 */
export async function planSft(
  job: SftJob,
  context: JobContext,
  textOf: (ids: readonly number[]) => string,
): Promise<JobPlan> {
  const { survey, hyperparameters, validation } = job
  const { epochs } = hyperparameters
  const started = outlineSft(job, context)
  const sequences: PlannedSequence[] = []
  const sample: Parameters<typeof sampleRows>[0][number][] = []
  let sequenceCount = 0
  let cost = 0
  for await (const batch of job.openBatches()) {
    sequenceCount += batch.sequences.length
    cost += costOf(rowBatchSizes(batch.sequences))
    for (const sequence of batch.sequences.slice(0, SHOWN_SEQUENCES - sequences.length)) {
      const source = `line ${sequence.lineNumber}`
      const { weight = 1 } = sequence
      sequences.push({
        source,
        advantage: null,
        weight: weight === 1 ? null : weight,
        ...describeMask(sequence, textOf),
      })
      sample.push(sequence)
    }
  }
  let validationCost = 0
  if (validation !== null) {
    for await (const batch of validation.openBatches()) validationCost += costOf(rowBatchSizes(batch.sequences))
  }
  const measurements = measurementCount(survey.trainableBatchCount, hyperparameters)
  return {
    started,
    rowCount: sequenceCount * epochs,
    tokens: survey.tokenCount * epochs,
    trainedTokens: survey.trainableTokenCount * epochs,
    ...memoryNeeds(job),
    work: {
      gradient: cost * epochs,
      forward: validationCost * measurements,
      sessionCount: validation === null ? 1 : 2,
    },
    groups: [],
    groupCount: 0,
    sequences,
    sequenceCount,
    sample: sampleRows(sample),
    precision: hyperparameters.precision,
  }
}

function costOf(sizes: readonly BatchSize[]): number {
  return sizes.reduce((sum, { rows, length }) => sum + rows * rowCost(length), 0)
}
