/**
 * How far a job has come: its gradient steps and the running totals that its checkpoint's metrics are averaged from.
 *
 * Kept as sums, so that a job that goes on from a resume point ends with the same numbers to the last bit.
 */

/** Changed in place by the job that makes it. */
export interface JobProgress {
  /** Gradient steps made. */
  stepCount: number
  /** Sum and number of the values of each averaged metric. */
  readonly totals: Map<string, { readonly sum: number; readonly count: number }>
}

/** Nothing done yet. */
export function createProgress(): JobProgress {
  return { stepCount: 0, totals: new Map() }
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
    [...totals].map(([name, { sum, count }]) => [name === 'loss' ? 'loss/train' : `loss/${name}`, sum / count]),
  )
}
