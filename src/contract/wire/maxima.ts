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

/** A role, a type, an effort: what is known is a word, and anything else is refused by it. */
export const word = () => z.string().max(1000)
/** A name or an id of the client's own: there are clients that keep a call's state in its id. */
export const label = () => z.string().max(65_536)
/** Entries of a list that are each looked at. No context has as many messages. */
export const MAX_LIST = 50_000
/** Token ids of one list, and values of a body of prompts. */
export const MAX_TOKEN_IDS = 2_000_000
/** Groups of one batch: each is read by itself, with counts of its own. */
export const MAX_GROUPS = 1_000_000
/** Lines of a run's file in one request. */
export const MAX_LINES = 300_000

/** What bounds a schema as a whole, where nothing in it says so. */
const bounds = new WeakMap<z.ZodType, 'body' | 'kept'>()
export const boundOf = (schema: z.ZodType) => bounds.get(schema)
/** What its body alone bounds, in bytes and in counts: texts of conversations, and data that no list has. */
export function byBody<S extends z.ZodType>(schema: S): S {
  bounds.set(schema, 'body')
  return schema
}
export const text = () => byBody(z.string())

/** Characters of a client's own data as JSON that is kept in a row, and comes back in lists. */
const MAX_KEPT = 65_536
/** Data of the client's own that is kept with what it makes. */
export function kept<S extends z.ZodType>(schema: S): S {
  const sizeOf = (value: unknown): number => JSON.stringify(value ?? null).length
  const error = ({ input }: { readonly input?: unknown }) =>
    `must have at most ${MAX_KEPT} characters as JSON, not ${sizeOf(input)}`
  const bounded = schema.refine((value) => sizeOf(value) <= MAX_KEPT, { error }) as S
  bounds.set(bounded, 'kept')
  return bounded
}

/** Texts of failures: longer ones say nothing more. */
export const MAX_MESSAGE = 8000
/** Numbers by name: metrics of an event or of a checkpoint; those of a batch's trajectories have names of the client's. */
export const numbersByName = (entries: number, longestName?: number) =>
  atMost(z.record(z.string(), z.number()), entries, longestName)
/** Metrics that the trajectories and groups of one job may have of their own: how many names all together, and characters of one. */
export const METRICS_OF_CLIENTS = { names: 2000, nameLength: 256 } as const
