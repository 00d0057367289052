/**
 * Several runs over one axis, and what differs in how they were made. Pure.
 */
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type Axis, type Curves, positionsOf } from './curves.js'

export interface Run {
  /** `project/name`. */
  readonly name: string
  readonly curves: Curves
}

export interface JoinedLine {
  readonly name: string
  readonly values: readonly (number | null)[]
}

/** Positions of all runs, ascending, each once; times and tokens begin at 0 in each. */
export function joinPositions(runs: readonly Run[], axis: Axis): readonly number[] {
  const all = new Set(runs.flatMap((run) => [...placesOf(run, axis)]))
  return [...all].sort((a, b) => a - b)
}

/** A metric of all runs at the joined positions; null where a run has no point. */
export function joinLines(
  runs: readonly Run[],
  key: string,
  axis: Axis,
  positions: readonly number[],
): readonly JoinedLine[] {
  const at = new Map(positions.map((position, i) => [position, i]))
  return runs.map((run) => {
    const values: (number | null)[] = positions.map(() => null)
    for (const [i, place] of placesOf(run, axis).entries()) {
      const index = at.get(place)
      if (index !== undefined) values[index] = run.curves.series[key]?.[i] ?? null
    }
    return { name: run.name, values }
  })
}

function placesOf({ curves }: Run, axis: Axis): readonly number[] {
  const places = positionsOf(curves, axis)
  if (axis !== 'time') return places
  const [first = 0] = places
  return places.map((place) => place - first)
}

export interface Difference {
  readonly option: string
  /** By run; undefined: it has none. */
  readonly values: readonly unknown[]
}

/** Options of the runs' newest jobs, those that differ, or all. */
export function differencesOf(jobs: readonly (TrainingJob | null)[], isWhole: boolean): readonly Difference[] {
  const configs = jobs.map((job) => (job === null ? {} : { kind: job.kind, ...(job.resolved_config ?? job.config) }))
  const names = [...new Set(configs.flatMap((config) => Object.keys(config)))].sort()
  return names.flatMap((option) => {
    const values = configs.map((config: Readonly<Record<string, unknown>>) => config[option])
    const differs = new Set(values.map((value) => JSON.stringify(value ?? null))).size > 1
    return isWhole || differs ? [{ option, values }] : []
  })
}
