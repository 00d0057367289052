/**
 * Examples of a file cut into the batches of its optimizer steps, and the lines that do not train.
 */
import { DataError } from '#base/errors/errors.js'
import { lineError } from '../json-lines.js'
import type { DataNotes } from '../notes/data-notes.js'

/** Lines whose examples do not train, in order; of a whole file the first `NAMED_LINES` of each kind. */
export interface LeftOutLines {
  /** Longer than the limit. */
  readonly overlength: readonly number[]
  /** Within the limit, but nothing trains. */
  readonly untrainable: readonly number[]
}

/** Messages that a chat template leaves out of rows that train all the same. */
export interface LeftOutMessages {
  readonly count: number
  /** The first of them: `line 3 messages[0] (role "observation")`. */
  readonly examples: readonly string[]
}

/** Rows that the chat template refuses: they are left out, and the others train. */
export interface RefusedRows {
  readonly count: number
  /** What was said of the first of them. */
  readonly examples: readonly string[]
  /** Of the first; null for none. */
  readonly error: DataError | null
}

/** Code of the error for a row that the chat template refuses. */
export const UNRENDERABLE_EXAMPLE = 'unrenderable_example'

/** How many lines a job names of each kind that is left out. */
const NAMED_LINES = 20

/** Batch i holds examples [i * size, (i + 1) * size); the last one may hold fewer. Keeps one batch in memory. */
export async function* inBatches<T>(examples: AsyncIterable<T>, size: number): AsyncGenerator<readonly T[]> {
  let batch: T[] = []
  for await (const example of examples) {
    batch.push(example)
    if (batch.length < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/** The lines of a file so far and of its next batch. */
export function addLeftOut(before: LeftOutLines, next: LeftOutLines): LeftOutLines {
  return {
    overlength: [...before.overlength, ...next.overlength].slice(0, NAMED_LINES),
    untrainable: [...before.untrainable, ...next.untrainable].slice(0, NAMED_LINES),
  }
}

/** No message so far. */
export const NO_MESSAGES: LeftOutMessages = { count: 0, examples: [] }

/** The messages so far and those of the next row. @param names of its messages */
export function addLeftOutMessages(
  before: LeftOutMessages,
  lineNumber: number,
  names: readonly string[],
): LeftOutMessages {
  if (names.length === 0) return before
  const examples = [...before.examples, ...names.map((name) => `line ${lineNumber} ${name}`)].slice(0, NAMED_LINES)
  return { count: before.count + names.length, examples }
}

/** The messages of a file so far and of its next batch. */
export function joinLeftOutMessages(before: LeftOutMessages, next: LeftOutMessages): LeftOutMessages {
  return { count: before.count + next.count, examples: [...before.examples, ...next.examples].slice(0, NAMED_LINES) }
}

export const NO_REFUSALS: RefusedRows = { count: 0, examples: [], error: null }

/** The refused rows of a file so far and of its next batch. */
export function joinRefused(before: RefusedRows, next: RefusedRows): RefusedRows {
  return {
    count: before.count + next.count,
    examples: [...before.examples, ...next.examples].slice(0, NAMED_LINES),
    error: before.error ?? next.error,
  }
}

/** What the rows of a batch render to. @returns null for one that the chat template refuses, which is counted */
export function createRefusals(): { take<T>(render: () => T): T | null; rows(): RefusedRows } {
  let refused = NO_REFUSALS
  return {
    take(render) {
      try {
        return render()
      } catch (error) {
        if (!(error instanceof DataError) || error.code !== UNRENDERABLE_EXAMPLE) throw error
        refused = joinRefused(refused, { count: 1, examples: [error.message.replace(/\.$/, '')], error })
        return null
      }
    },
    rows: () => refused,
  }
}

/** @throws {DataError} that of the first refused row, where nothing else trains: a job of nothing but those cannot be meant */
export function assertSomeRendered(trainableBatchCount: number, { error }: RefusedRows): void {
  if (trainableBatchCount === 0 && error !== null) throw error
}

/**
 * A tokenizer may know tokens for which the model has no row in its embedding.
 *
 * @param size how many it has; undefined: nobody asks
 * @throws {DataError} `unrenderable_example`
 */
export function assertInVocabulary(tokenIds: ArrayLike<number>, size: number | undefined, line: number): void {
  if (size === undefined) return
  for (let i = 0; i < tokenIds.length; i += 1) {
    const id = tokenIds[i] ?? 0
    if (id < size) continue
    throw lineError(UNRENDERABLE_EXAMPLE, line, `needs token id ${id}, but the model has ids from 0 to ${size - 1}`)
  }
}

/** A row's tokens, and those that are learned. */
interface MaskedRow {
  readonly tokenIds: ArrayLike<number>
  readonly lossMask: ArrayLike<number>
}

/**
 * Notes what answers hold that the base model has no token of its own for, once a row.
 *
 * @returns whether they hold any
 */
export function noteLostTokens(
  { notes, text: { lostTokens: lost } }: { readonly notes?: DataNotes | undefined; readonly text: LostTokens },
  line: number,
  sequences: readonly MaskedRow[],
): boolean {
  if (lost === undefined || lost.size === 0) return false
  const found = new Set<string>()
  for (const { tokenIds, lossMask } of sequences) {
    for (let i = 0; i < tokenIds.length; i += 1) {
      const said = lossMask[i] === 1 ? lost.get(tokenIds[i] ?? -1) : undefined
      if (said !== undefined) found.add(JSON.stringify(said))
    }
  }
  for (const said of found) notes?.add('lost_token', `line ${line}`, said)
  return found.size > 0
}

/** What readers of rows know of such tokens. */
export interface LostTokens {
  /** By id, what tokens say that the base model cannot tell from others. */
  readonly lostTokens?: ReadonlyMap<number, string>
}
