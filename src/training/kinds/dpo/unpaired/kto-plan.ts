/**
 * The plan of a job on labelled answers: its outline, and one more pass over the rows for masks and sizes.
 */
import type { UnpairedBatch } from '#formats/rows/unpaired-data.js'
import { rowCost } from '#training/rows/training-batch.js'
import { measurementCount } from '#training/trainer/epochs/validation.js'
import type { JobContext } from '#training/trainer/job.js'
import {
  describeMask,
  type JobPlan,
  type PlannedSequence,
  SHOWN_SEQUENCES,
  sampleRows,
} from '#training/trainer/plan/job-plan.js'
import { type KtoJob, ktoMemoryNeeds, outlineKto } from './kto-job.js'
import { answerBatchSizes } from './kto-rows.js'

/**
 * Plans a job without running any of it; a job that stops early does less.
 *
 * @throws what reading the rows throws
 */
export async function planKto(
  job: KtoJob,
  context: JobContext,
  textOf: (ids: readonly number[]) => string,
): Promise<JobPlan> {
  const { survey, hyperparameters, validation } = job
  const { epochs } = hyperparameters
  const started = outlineKto(job, context)
  const sequences: PlannedSequence[] = []
  const sample: Parameters<typeof sampleRows>[0][number][] = []
  let tokenCount = 0
  let cost = { answers: 0, mismatched: 0 }
  for await (const batch of job.openBatches()) {
    tokenCount += batch.tokenCount
    cost = added(cost, batch)
    for (const { answer, isDesirable, lineNumber } of batch.answers.slice(0, SHOWN_SEQUENCES - sequences.length)) {
      const source = `line ${lineNumber}, ${isDesirable ? 'good' : 'bad'}`
      sequences.push({ source, advantage: null, weight: null, ...describeMask(answer, textOf) })
      sample.push(answer)
    }
  }
  let measured = { answers: 0, mismatched: 0 }
  if (validation !== null) for await (const batch of validation.openBatches()) measured = added(measured, batch)
  const all = (costs: typeof cost): number => costs.answers + costs.mismatched
  return {
    started,
    rowCount: survey.answerCount * epochs,
    tokens: tokenCount * epochs,
    trainedTokens: survey.answerTokenCount * epochs,
    ...ktoMemoryNeeds(job),
    work: {
      gradient: cost.answers * epochs,
      forward:
        all(cost) +
        all(measured) +
        cost.mismatched * epochs +
        all(measured) * measurementCount(survey.trainableBatchCount, hyperparameters),
      sessionCount: 3,
    },
    groups: [],
    groupCount: 0,
    sequences,
    sequenceCount: survey.answerCount,
    sample: sampleRows(sample),
    precision: hyperparameters.precision,
  }
}

function added(
  costs: { readonly answers: number; readonly mismatched: number },
  { answers }: UnpairedBatch,
): { answers: number; mismatched: number } {
  const costOf = (sizes: ReturnType<typeof answerBatchSizes>): number =>
    sizes.reduce((sum, { rows, length }) => sum + rows * rowCost(length), 0)
  return {
    answers: costs.answers + costOf(answerBatchSizes(answers.map(({ answer }) => answer))),
    mismatched: costs.mismatched + costOf(answerBatchSizes(answers.flatMap(({ mismatched }) => mismatched ?? []))),
  }
}
