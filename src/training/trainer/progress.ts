/**
 * How far a job has come: its gradient steps, the running totals that its checkpoint's metrics are averaged from, the best
 * state so far where a job keeps one, what it has settled, and what it reports about itself.
 *
 * Kept as sums, so that a job that goes on from a resume point ends with the same numbers to the last bit.
 */
import type { AdamWState } from '#numerics/optim/adamw.js'
import { createDecisions, type JobDecisions } from './decisions.js'
import { createReport, type JobReport } from './report.js'

/** Changed in place by the job that makes it. */
export interface JobProgress {
  /** Gradient steps made. */
  stepCount: number
  /** Sum and number of the values of each averaged metric. */
  readonly totals: Map<string, { readonly sum: number; readonly count: number }>
  /** The state with the lowest validation loss; null in a job that keeps its last one. */
  best: KeptState | null
  readonly decisions: JobDecisions
  readonly report: JobReport
}

/** A copy of adapter and optimizer between two gradient steps. */
export interface KeptState {
  /** Gradient steps before it. */
  readonly step: number
  readonly loss: number
  /** Adapter tensors by graph name. */
  readonly tensors: ReadonlyMap<string, Float32Array>
  readonly optimizer: AdamWState
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
