/**
 * The learning rate of each batch of a job on rows: a constant, a list, or a schedule over all epochs.
 *
 * The schedule is the one OpenPipe ART's `create_lr_schedule` makes on the client, so that a list from there and an option
 * here train the same; checked against it in `test/unit/training/trainer/epochs/schedule.test.ts`.
 */
import type { ScheduleOptions } from '#contract/jobs/shared-options.js'
import type { Hyperparameters } from '../hyperparameters.js'

/** The parts of a job's options that rates follow from. */
export type RateOptions = Hyperparameters<ScheduleOptions> & {
  /** One rate for all batches, or exactly one per batch. */
  readonly learningRate: number | readonly number[]
}

/** What is said of rates that a job of so many batches never takes. */
export function rateNotes(options: RateOptions, batchCount: number): string[] {
  const { learningRate } = options
  const warmupSteps = warmupStepsOf(options, batchCount)
  if (typeof learningRate !== 'number' || batchCount === 0 || warmupSteps <= batchCount) return []
  const highest = Number(rateOf(options, batchCount - 1, batchCount).toPrecision(3))
  const batches = batchCount === 1 ? 'batch' : 'batches'
  return [
    `warmup_steps is ${warmupSteps}, but the job has ${batchCount} ${batches}: the learning rate rises to ${highest} and never reaches ${learningRate}`,
  ]
}

/**
 * The rate of one batch.
 *
 * @param index number of the batch over all epochs, from 0; batches in which nothing trains count
 * @param batchCount batches of all epochs
 */
export function rateOf(options: RateOptions, index: number, batchCount: number): number {
  const { learningRate, learningRateSchedule, minLearningRate: least } = options
  const warmupSteps = warmupStepsOf(options, batchCount)
  if (typeof learningRate !== 'number') return learningRate[index] as number
  if (index < warmupSteps) return least + (learningRate - least) * ((index + 1) / warmupSteps)
  const decaySteps = batchCount - warmupSteps
  const progress = decaySteps > 1 ? (index - warmupSteps) / (decaySteps - 1) : 0
  switch (learningRateSchedule) {
    case 'constant':
      return learningRate
    case 'linear':
      return least + (learningRate - least) * (1 - progress)
    case 'cosine':
      return least + ((learningRate - least) * (1 + Math.cos(Math.PI * progress))) / 2
  }
}

/** A share of all batches is rounded up, as transformers does. */
function warmupStepsOf({ warmupSteps, warmupRatio }: RateOptions, batchCount: number): number {
  return warmupRatio > 0 ? Math.ceil(warmupRatio * batchCount) : warmupSteps
}
