/**
 * Loss on rows that are not trained on, and what follows from it: the best state is remembered, and a job that no longer
 * gets better stops.
 *
 * What the loss is, is the job's affair: that of training, over all validation rows. It is measured before the first step, at
 * an interval, and after the last step.
 */
import { TrainingError } from '#base/errors/errors.js'
import type { EpochOptions } from '#contract/jobs/shared-options.js'
import type { Hyperparameters } from '../hyperparameters.js'
import type { JobContext } from '../job.js'
import type { Learner } from '../learner/learner.js'

/** What rows that are not trained on say: the loss of training over all of them, and what the kind of job measures besides. */
export interface Measured {
  readonly loss: number
  readonly metrics?: Readonly<Record<string, number>>
}

/** Measurements under the names of events and checkpoints, `val/loss` first; empty where nothing was measured. */
export type ValidationMetrics = Readonly<Record<string, number>>

/** How a job uses its measurements. */
export type ValidationOptions = Pick<
  Hyperparameters<EpochOptions>,
  'validationInterval' | 'earlyStoppingPatience' | 'earlyStoppingMinDelta' | 'keepBest'
>

/** Measures a job that runs. */
export interface Validation {
  /** Measures now, unless the state has been measured already: then nothing was due. */
  measure(): Promise<ValidationMetrics>
  /** As `measure`, if the number of gradient steps says so. */
  measureWhenDue(): Promise<ValidationMetrics>
  /** Whether patience is at its end. */
  isOver(): boolean
  /** Puts the best state in place where the job keeps it. @returns what was measured of the state the job ends with */
  finish(): Promise<ValidationMetrics>
}

/**
 * Sets up the measurements of a job.
 *
 * @param options.stepsPerEpoch gradient steps of one pass over the training rows: the interval unless one is given
 * @param options.measureRows measures all validation rows under the weights as they are
 */
export function createValidation(
  context: JobContext,
  {
    learner,
    hyperparameters,
    stepsPerEpoch,
    measureRows,
  }: {
    readonly learner: Learner
    readonly hyperparameters: ValidationOptions
    readonly stepsPerEpoch: number
    readonly measureRows: () => Promise<Measured>
  },
): Validation {
  const { progress, clock } = context
  const { report } = progress
  const { earlyStoppingPatience: patience, earlyStoppingMinDelta: minDelta, keepBest } = hyperparameters
  const interval = hyperparameters.validationInterval ?? Math.max(1, stepsPerEpoch)

  async function measure(): Promise<ValidationMetrics> {
    const step = progress.stepCount
    if (report.validation.at(-1)?.step === step) return {}
    const startedMs = clock.monotonicMs()
    const point = { step, ...(await measureRows()) }
    if (!Number.isFinite(point.loss)) {
      throw new TrainingError('non_finite_loss', `the validation loss after gradient step ${step} is ${point.loss}`)
    }
    report.seconds.validation += (clock.monotonicMs() - startedMs) / 1000
    report.validation.push(point)
    if (keepBest && point.loss < (progress.best?.loss ?? Number.POSITIVE_INFINITY)) {
      await learner.mark('best', 'state')
      progress.best = { step, loss: point.loss, optimizerStepCount: learner.updateCount }
    }
    return namedMetrics(point)
  }

  return {
    measure,
    measureWhenDue: async () => (progress.stepCount % interval === 0 ? measure() : {}),
    isOver: () => patience !== null && measurementsSinceBetter(report.validation, minDelta) >= patience,
    finish: async () => {
      const { best } = progress
      if (best === null) return namedMetrics(report.validation.at(-1))
      if (best.step !== progress.stepCount) {
        await learner.restore('best')
        report.keptStep = best.step
      }
      return namedMetrics(report.validation.find(({ step }) => step === best.step))
    },
  }
}

function namedMetrics(measured: Measured | undefined): ValidationMetrics {
  if (measured === undefined) return {}
  const { loss, metrics = {} } = measured
  return Object.fromEntries(Object.entries({ loss, ...metrics }).map(([name, value]) => [`val/${name}`, value]))
}

/** How often a job that does not stop early measures, the first time before its first step. */
export function measurementCount(
  stepsPerEpoch: number,
  { validationInterval, epochs }: Pick<Hyperparameters<EpochOptions>, 'validationInterval' | 'epochs'>,
): number {
  const steps = stepsPerEpoch * epochs
  const interval = validationInterval ?? Math.max(1, stepsPerEpoch)
  return steps === 0 ? 0 : 1 + Math.ceil(steps / interval)
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
