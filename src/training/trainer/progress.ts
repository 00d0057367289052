/**
 * How far a job has come: its gradient steps, the running totals that its checkpoint's metrics are averaged from, the best
 * state so far where a job keeps one, what it has settled, and what it reports about itself.
 *
 * Kept as sums, so that a job that goes on from a resume point ends with the same numbers to the last bit.
 */
import { createDecisions, type JobDecisions } from './decisions.js'
import { createReport, type JobReport } from './report.js'

/** Changed in place by the job that makes it. */
export interface JobProgress {
  /** Gradient steps made. */
  stepCount: number
  /** Sum and number of the values of each averaged metric. */
  readonly totals: Map<string, { readonly sum: number; readonly count: number }>
  /** When the validation loss was lowest, whose state is the learner's mark `best`; null in a job that keeps its last one. */
  best: BestState | null
  readonly decisions: JobDecisions
  readonly report: JobReport
}

/** A state that the learner keeps a copy of. */
export interface BestState {
  /** Gradient steps before it. */
  readonly step: number
  readonly loss: number
  /** Updates that its moments have seen. */
  readonly optimizerStepCount: number
}

/** Nothing done yet. */
export function createProgress(): JobProgress {
  return { stepCount: 0, totals: new Map(), best: null, decisions: createDecisions(), report: createReport() }
}

/** Counts a gradient step and adds up those of its metrics that are named. */
export function countStep(
  progress: JobProgress,
  data: Readonly<Record<string, number>>,
  names: readonly string[],
): void {
  progress.stepCount += 1
  for (const name of names) {
    const value = data[name]
    if (value === undefined) continue
    const { sum, count } = progress.totals.get(name) ?? { sum: 0, count: 0 }
    progress.totals.set(name, { sum: sum + value, count: count + 1 })
  }
}

/** The mean of each metric over steps, names prefixed with `loss/` as clients log them; `loss` becomes `loss/train`. */
export function averageSteps({ totals }: JobProgress): Record<string, number> {
  return Object.fromEntries(
    [...totals].map(([name, { sum, count }]) => {
      if (name.includes('/')) return [name, sum / count]
      return [name === 'loss' ? 'loss/train' : `loss/${name}`, sum / count]
    }),
  )
}
