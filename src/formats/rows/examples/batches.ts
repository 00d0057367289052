/**
 * Examples of a file cut into the batches of its optimizer steps, and the lines that do not train.
 */

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
