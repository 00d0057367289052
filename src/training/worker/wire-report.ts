/**
 * A job's report in the form the server stores (`contract/wire/training/job-report.ts`), with the time it still takes.
 */
import { MAX_MEASUREMENTS, type JobReport as WireReport } from '#contract/wire/training/job-report.js'
import { averageSteps, type JobProgress } from '#training/trainer/progress.js'
import { factsOf, JOB_PARTS, reportWarnings } from '#training/trainer/report.js'

/** What the pace of this attempt says about the rest. */
export interface Pace {
  /** Gradient steps this attempt made, and the seconds they took. */
  readonly steps: number
  readonly seconds: number
}

/** Writes a report. */
export function toWireReport(progress: JobProgress, pace: Pace): WireReport {
  const { report, stepCount } = progress
  const metrics = averageSteps(progress)
  const loss = metrics['loss/train']
  return {
    trainer: report.trainer,
    left_out: report.leftOut.map(({ reason, count, examples }) => ({ reason, count, examples: [...examples] })),
    tokens: report.tokens,
    trained_tokens: report.trainedTokens,
    seconds: Object.fromEntries(JOB_PARTS.map((part) => [part, Math.round(report.seconds[part] * 1000) / 1000])),
    validation: report.validation
      .slice(-MAX_MEASUREMENTS)
      .map(({ step, loss, metrics }) => ({ gradient_step: step, loss, ...metrics })),
    kept_gradient_step: report.keptStep,
    stopped_early: report.hasStoppedEarly,
    facts: { ...factsOf(report, stepCount), ...(loss === undefined ? {} : { loss: { mean: loss } }) },
    remaining_seconds: remainingSeconds(report.plannedSteps, stepCount, pace),
    warnings: reportWarnings(report, stepCount, metrics),
  }
}

function remainingSeconds(planned: number | null, done: number, { steps, seconds }: Pace): number | null {
  if (planned === null || steps === 0) return null
  return (Math.max(0, planned - done) * seconds) / steps
}
