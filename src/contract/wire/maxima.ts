/**
 * Maxima of what others send, where a schema alone has none: entries of a record and their names, and the size of the whole.
 *
 * `test/architecture/maxima.test.ts` looks for them: a schema of what comes from elsewhere has one on each string, list and record.
 */
import { z } from 'zod'

/** Longest name of an entry. */
const MAX_NAME = 256

/** A record, or an object with further fields, of at most so many entries. */
export function atMost<S extends z.ZodType<object>>(schema: S, entries: number, longestName = MAX_NAME): S {
  const isFit = (value: object): boolean => {
    const names = Object.keys(value)
    return names.length <= entries && names.every((name) => name.length <= longestName)
  }
  const error = `must have at most ${entries} entries, with names of at most ${longestName} characters`
  return schema.refine((value) => isFit(value as object), { error }).meta({ maxProperties: entries }) as S
}

/** Texts of failures: longer ones say nothing more. */
export const MAX_MESSAGE = 8000
/** Numbers by name: metrics of an event or of a checkpoint; those of a batch's trajectories have names of the client's. */
export const numbersByName = (entries: number, longestName?: number) =>
  atMost(z.record(z.string(), z.number()), entries, longestName)
/** Metrics that the trajectories and groups of one job may have of their own: how many names all together, and characters of one. */
export const METRICS_OF_CLIENTS = { names: 2000, nameLength: 256 } as const
