/**
 * The loop of a job over rows of a file: passes over its batches in order, a gradient step each, measurements between them.
 */
import type { EpochOptions } from '#contract/jobs/shared-options.js'
import type { Hyperparameters } from '../hyperparameters.js'
import type { JobContext, TrainingEvent } from '../job.js'
import type { Learner } from '../learner/learner.js'
import { countStep } from '../progress.js'
import { noteStep } from '../report.js'
import type { StepResult } from '../trainer.js'
import { rateOf } from './schedule.js'
import { createValidation, type Measured, type ValidationMetrics, type ValidationOptions } from './validation.js'

/** What such a job reads. */
export interface BatchedRows<Batch> {
  readonly survey: { readonly batchCount: number; readonly trainableBatchCount: number }
  /** All batches from the first; called once per epoch. `index` counts those in which nothing trains too. */
  readonly openBatches: () => AsyncIterable<Batch>
  readonly hyperparameters: ValidationOptions &
    Parameters<typeof rateOf>[0] &
    Pick<Hyperparameters<EpochOptions>, 'epochs'>
}

/** What a kind of job does with its batches. */
export interface BatchSteps<Batch> {
  readonly maxGradientNorm: number
  /** Names that are averaged over steps into the checkpoint's metrics. */
  readonly averaged: readonly string[]
  isTrainable(batch: Batch): boolean
  /** Makes the gradient step of a batch. */
  makeStep(batch: Batch, learningRate: number): Promise<BatchStep>
  readonly learner: Learner
  /** Measures the validation rows; null without any. */
  readonly measurement: { measureRows(): Promise<Measured> } | null
}

export interface BatchStep {
  readonly result: StepResult
  /** The event's data but for what is measured. */
  readonly data: Readonly<Record<string, number>>
  readonly tokens: number
  readonly trainedTokens: number
}

/**
 * Runs all epochs, from where the job's progress stands. Who opened the learner parks it.
 *
 * @returns what validation rows say of the state the job ends with
 */
export async function* trainEpochs<Batch extends { readonly index: number }>(
  { survey, openBatches, hyperparameters }: BatchedRows<Batch>,
  { learner, measurement, maxGradientNorm, averaged, isTrainable, makeStep }: BatchSteps<Batch>,
  context: JobContext,
): AsyncGenerator<TrainingEvent, ValidationMetrics> {
  const { progress } = context
  const { report } = progress
  const { epochs } = hyperparameters
  const alreadyDone = progress.stepCount
  const stepsPerEpoch = survey.trainableBatchCount
  const validation =
    measurement === null ? null : createValidation(context, { learner, hyperparameters, stepsPerEpoch, ...measurement })
  if (alreadyDone === 0) await validation?.measure()
  let position = 0
  for await (const { batch, epoch } of allBatches(openBatches, epochs)) {
    if (!isTrainable(batch)) continue
    position += 1
    if (position <= alreadyDone) continue
    // also in a job that goes on from a point left just before it would have stopped
    if (validation?.isOver() === true) break
    const learningRate = rateOf(hyperparameters, epoch * survey.batchCount + batch.index, survey.batchCount * epochs)
    const { result, data, tokens, trainedTokens } = await makeStep(batch, learningRate)
    countStep(progress, data, averaged)
    noteStep(report, { ...result, tokens, trainedTokens, maxGradientNorm })
    const isLast = progress.stepCount === stepsPerEpoch * epochs
    const isStopped = !isLast && context.isStopRequested?.() === true
    const isEnd = isLast || isStopped
    const measured = validation === null ? {} : await (isEnd ? validation.measure() : validation.measureWhenDue())
    report.hasStoppedEarly = isStopped || (!isLast && validation?.isOver() === true)
    yield { type: 'gradient_step', data: { ...data, ...measured } }
    if (isStopped) break
  }
  return (await validation?.finish()) ?? {}
}

/** The batches of every epoch, in the order of the file each time. */
async function* allBatches<Batch>(
  openBatches: () => AsyncIterable<Batch>,
  epochs: number,
): AsyncGenerator<{ readonly batch: Batch; readonly epoch: number }> {
  for (let epoch = 0; epoch < epochs; epoch += 1) {
    for await (const batch of openBatches()) yield { batch, epoch }
  }
}
