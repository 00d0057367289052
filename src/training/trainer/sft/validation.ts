/**
 * Loss on rows that are not trained on, and what follows from it: the best state is remembered, and a job that no longer
 * gets better stops.
 *
 * The loss is that of training: cross-entropy summed over the trainable tokens of all validation rows, divided by their
 * number. It is measured before the first step, at an interval, and after the last step.
 */
import { InvalidRequestError, TrainingError } from '#base/errors.js'
import type { SftBatch, SftSurvey } from '#training/data/sft-data.js'
import type { SftHyperparameters } from '#training/hyperparameters.js'
import { copyState, restoreState } from '../kept-state.js'
import { openScores, type ScoringContext } from '../scores.js'
import { toRowBatches } from './sft-rows.js'

/** Rows a job is measured on. */
export interface ValidationRows {
  readonly survey: SftSurvey
  /** All batches from the first; called once per measurement. */
  readonly openBatches: () => AsyncIterable<SftBatch>
}

/** Measures a job that runs. */
export interface Validation {
  /** Measures now, unless the state has been measured already. @returns the loss, or null when nothing was due */
  measure(): Promise<number | null>
  /** As `measure`, if the number of gradient steps says so. */
  measureWhenDue(): Promise<number | null>
  /** Whether patience is at its end. */
  isOver(): boolean
  /** Puts the best state in place where the job keeps it. @returns validation loss of the state the job ends with */
  finish(): number | null
  release(): Promise<void>
}

/**
 * Opens a measurement.
 *
 * @param options.stepsPerEpoch gradient steps of one pass over the training rows: the interval unless one is given
 * @throws {InvalidRequestError} `no_trainable_tokens` when nothing in the rows would train
 */
export async function openValidation(
  rows: ValidationRows,
  context: ScoringContext,
  { hyperparameters, stepsPerEpoch }: { readonly hyperparameters: SftHyperparameters; readonly stepsPerEpoch: number },
): Promise<Validation> {
  const { progress, clock } = context
  const { report } = progress
  const { earlyStoppingPatience: patience, earlyStoppingMinDelta: minDelta, isBestKept } = hyperparameters
  const interval = hyperparameters.validationInterval ?? Math.max(1, stepsPerEpoch)
  if (rows.survey.trainableTokenCount === 0) {
    throw new InvalidRequestError(
      'no_trainable_tokens',
      'validation_data_url holds no row in which anything would train',
    )
  }
  const scores = await openScores(context, context.adapter)

  async function loss(): Promise<number> {
    let sum = 0
    let count = 0
    for await (const batch of rows.openBatches()) {
      if (batch.trainableTokenCount === 0) continue
      for (const part of toRowBatches(batch.sequences)) {
        const logp = await scores.score(part)
        part.trained.forEach((_, n) => {
          sum -= logp[n] as number
        })
        count += part.trained.length
      }
    }
    return sum / count
  }

  async function measure(): Promise<number | null> {
    const step = progress.stepCount
    if (report.validation.at(-1)?.step === step) return null
    const startedMs = clock.monotonicMs()
    const point = { step, loss: await loss() }
    if (!Number.isFinite(point.loss)) {
      throw new TrainingError('non_finite_loss', `the validation loss after gradient step ${step} is ${point.loss}`)
    }
    report.seconds.validation += (clock.monotonicMs() - startedMs) / 1000
    report.validation.push(point)
    if (isBestKept && point.loss < (progress.best?.loss ?? Number.POSITIVE_INFINITY)) {
      progress.best = copyState(context, point)
    }
    return point.loss
  }

  return {
    measure,
    measureWhenDue: async () => (progress.stepCount % interval === 0 ? measure() : null),
    isOver: () => patience !== null && measurementsSinceBetter(report.validation, minDelta) >= patience,
    finish: () => {
      const { best } = progress
      if (best === null) return report.validation.at(-1)?.loss ?? null
      if (best.step !== progress.stepCount) {
        restoreState(context, best)
        report.keptStep = best.step
      }
      return best.loss
    },
    release: () => scores.release(),
  }
}

/** How many measurements at the end of the list are not lower than the best before them by at least `minDelta`. */
export function measurementsSinceBetter(measurements: readonly { readonly loss: number }[], minDelta: number): number {
  let best = Number.POSITIVE_INFINITY
  let since = 0
  for (const { loss } of measurements) {
    if (loss < best - minDelta || best === Number.POSITIVE_INFINITY) {
      best = loss
      since = 0
    } else {
      since += 1
    }
  }
  return since
}
