/**
 * Supervised examples (`examples/sft-example.ts`) tokenized with a mask on assistant turns and cut into batches.
 *
 * Everything streams, so a file of gigabytes needs the memory of one batch. Order is the source's (`row-order.ts` makes another
 * one): batch i holds the examples [i * batchSize, (i + 1) * batchSize), and learning rates are indexed by that i even when a batch is skipped.
 * Examples longer than the limit are dropped whole, counted, and the first of them named by line.
 * Tokenizers enter through the `SftText` interface only.
 */
import { AppError, type DataError, InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import {
  addLeftOut,
  addLeftOutMessages,
  assertInVocabulary,
  assertSomeRendered,
  createRefusals,
  inBatches,
  joinLeftOutMessages,
  joinRefused,
  type LeftOutLines,
  type LeftOutMessages,
  type LostTokens,
  NO_MESSAGES,
  NO_REFUSALS,
  noteLostTokens,
  type RefusedRows,
  UNRENDERABLE_EXAMPLE,
} from './examples/batches.js'
import { type RowOptions, readSftExamples, type SftExample, type TrainedTurns } from './examples/sft-example.js'
import { lineError, type RowSource } from './json-lines.js'
import { createDataNotes } from './notes/data-notes.js'
import { createSortedRows } from './notes/sorted-rows.js'
import { createWeights } from './notes/weights.js'

/**
 * Turns a conversation into sequences of tokens, several where its turns are not asked for behind one another; 1 in the mask marks
 * what the turns generate, their end-of-turn token included.
 */
export interface SftText extends LostTokens {
  /** How many token ids the model takes; absent: as many as there are. */
  readonly vocabularySize?: number
  /** Whether the chat template writes reasoning of the assistant. */
  readonly isReasoningRead: boolean
  renderTurns(
    conversation: { readonly messages: readonly JsonObject[]; readonly tools: readonly JsonObject[] | null },
    turns: TrainedTurns,
  ): {
    readonly sequences: readonly { readonly tokenIds: ArrayLike<number>; readonly mask: ArrayLike<number> }[]
    /** The messages that the chat template leaves out, as people are told of them. */
    readonly leftOut: readonly string[]
  }
}

/** One tokenized example. `tokenIds` and `lossMask` have the same length T; `lossMask[0]` is always 0. */
export interface SftSequence {
  readonly tokenIds: Int32Array
  readonly lossMask: Uint8Array
  readonly lineNumber: number
  /** What multiplies the loss of its tokens; absent: 1. */
  readonly weight?: number
}

/** The examples of one optimizer step. */
export interface SftBatch {
  /** Position among all batches of the file, from 0: the index into a learning-rate list. */
  readonly index: number
  /** Sequences with at least one trainable token. Empty means: skip this batch, no step. */
  readonly sequences: readonly SftSequence[]
  /** Examples of the file that belong to this batch. */
  readonly exampleCount: number
  /** Examples longer than the limit. */
  readonly droppedCount: number
  /** Examples within the limit in which no token trains. */
  readonly untrainableCount: number
  readonly leftOutLines: LeftOutLines
  readonly leftOutMessages: LeftOutMessages
  readonly refused: RefusedRows
  /** Examples that make several sequences. */
  readonly splitCount: number
  /** Examples whose answers hold what the base model cannot write. */
  readonly lostCount: number
  readonly tokenCount: number
  readonly trainableTokenCount: number
  /** Tokens of the longest sequence that is kept. */
  readonly longestLength: number
}

/** How a file is cut into batches. */
export interface SftBatchOptions extends RowOptions {
  readonly text: SftText
  readonly batchSize: number
  readonly assistantTurns: 'all' | 'last'
  /** Longest sequence that is kept, in tokens. */
  readonly maxLength: number
}

/** What a file holds; a first pass over it, so that a job knows its number of steps before it starts. */
export interface SftSurvey {
  readonly exampleCount: number
  readonly batchCount: number
  /** Batches with at least one trainable token: the number of optimizer steps. */
  readonly trainableBatchCount: number
  readonly droppedCount: number
  readonly untrainableCount: number
  readonly leftOutLines: LeftOutLines
  readonly leftOutMessages: LeftOutMessages
  readonly refused: RefusedRows
  /** Examples that make several sequences. */
  readonly splitCount: number
  /** Examples whose answers hold what the base model cannot write. */
  readonly lostCount: number
  /** What else is worth saying of the rows, as sentences. */
  readonly notes: readonly string[]
  /** The same of their order, which matters where they train. */
  readonly orderNotes: readonly string[]
  readonly tokenCount: number
  readonly trainableTokenCount: number
  /** Tokens of the longest sequence that is kept. */
  readonly longestLength: number
}

/**
 * Tokenizes a file batch by batch.
 *
 * @returns every batch of the file in order, also those in which nothing trains
 * @throws {DataError} as `readSftExamples`
 */
export async function* readSftBatches(source: RowSource, options: SftBatchOptions): AsyncGenerator<SftBatch> {
  for await (const { batch } of batchesOf(source, options)) yield batch
}

/** The same with the examples that each batch was made of. */
async function* batchesOf(
  source: RowSource,
  options: SftBatchOptions,
): AsyncGenerator<{ readonly batch: SftBatch; readonly examples: readonly SftExample[] }> {
  const readerOptions = { ...options, isReasoningRead: options.text.isReasoningRead }
  let index = 0
  for await (const examples of inBatches(readSftExamples(source, readerOptions), options.batchSize)) {
    yield { batch: toBatch(examples, index, options), examples }
    index += 1
  }
}

/**
 * Runs over a file once and adds up its batches; holds one batch in memory.
 *
 * @throws {DataError} as `readSftExamples`; `unrenderable_example` where nothing trains and the chat template refuses a conversation
 */
export async function surveySftData(source: RowSource, options: SftBatchOptions): Promise<SftSurvey> {
  const total = {
    exampleCount: 0,
    batchCount: 0,
    trainableBatchCount: 0,
    droppedCount: 0,
    untrainableCount: 0,
    splitCount: 0,
    lostCount: 0,
    tokenCount: 0,
    trainableTokenCount: 0,
    longestLength: 0,
  }
  let leftOutLines: LeftOutLines = { overlength: [], untrainable: [] }
  let leftOutMessages = NO_MESSAGES
  let refused = NO_REFUSALS
  const notes = createDataNotes()
  const sorted = createSortedRows()
  const weights = createWeights()
  for await (const { batch, examples } of batchesOf(source, { ...options, notes })) {
    for (const { weight = 1 } of examples) weights.add(weight)
    for (const { messages } of examples) sorted.add(JSON.stringify(messages.at(-1)?.['content'] ?? null))
    total.batchCount += 1
    leftOutLines = addLeftOut(leftOutLines, batch.leftOutLines)
    leftOutMessages = joinLeftOutMessages(leftOutMessages, batch.leftOutMessages)
    refused = joinRefused(refused, batch.refused)
    total.longestLength = Math.max(total.longestLength, batch.longestLength)
    if (batch.trainableTokenCount > 0) total.trainableBatchCount += 1
    for (const name of [
      'exampleCount',
      'droppedCount',
      'untrainableCount',
      'splitCount',
      'lostCount',
      'tokenCount',
      'trainableTokenCount',
    ] as const)
      total[name] += batch[name]
  }
  assertSomeRendered(total.trainableBatchCount, refused)
  return {
    ...total,
    leftOutLines,
    leftOutMessages,
    refused,
    notes: [...notes.sentences(), ...weights.sentences()],
    orderNotes: sorted.sentences(),
  }
}

/**
 * Checks that a list of learning rates has exactly one value per batch.
 *
 * @throws {InvalidRequestError} `learning_rate_count`, param `config.learning_rate`
 */
export function assertLearningRateCount(learningRate: number | readonly number[], batchCount: number): void {
  if (typeof learningRate === 'number' || learningRate.length === batchCount) return
  throw new InvalidRequestError(
    'learning_rate_count',
    `config.learning_rate has ${learningRate.length} values but the training data makes ${batchCount} batches.`,
    {
      param: 'config.learning_rate',
      hint: 'Give one number, or one value for each batch of batch_size examples.',
    },
  )
}

/** Number of batches that `exampleCount` examples make. */
export function sftBatchCount(exampleCount: number, batchSize: number): number {
  return Math.ceil(exampleCount / batchSize)
}

function toBatch(examples: readonly SftExample[], index: number, options: SftBatchOptions): SftBatch {
  let leftOutMessages = NO_MESSAGES
  let lostCount = 0
  const refusals = createRefusals()
  const rendered = examples.flatMap((example) => {
    const row = refusals.take(() => {
      const { leftOut, sequences } = render(example, options)
      return { leftOut, sequences: sequences.map(({ tokenIds, mask }) => toSequence(tokenIds, mask, example)) }
    })
    if (row === null) return []
    leftOutMessages = addLeftOutMessages(leftOutMessages, example.lineNumber, row.leftOut)
    if (noteLostTokens(options, example.lineNumber, row.sequences)) lostCount += 1
    return [row.sequences]
  })
  const fitting = rendered.filter((row) => row.every(({ tokenIds }) => tokenIds.length <= options.maxLength))
  const trainable = fitting.map((row) => row.filter(({ lossMask }) => lossMask.includes(1)))
  const sequences = trainable.flat()
  const linesOf = (rows: readonly (readonly SftSequence[])[]): number[] =>
    rows.flatMap(([first]) => first?.lineNumber ?? [])
  const untrainable = fitting.filter((_, row) => trainable[row]?.length === 0)
  return {
    index,
    sequences,
    exampleCount: examples.length,
    droppedCount: rendered.length - fitting.length,
    untrainableCount: untrainable.length,
    leftOutLines: {
      overlength: linesOf(rendered.filter((row) => !fitting.includes(row))),
      untrainable: linesOf(untrainable),
    },
    splitCount: trainable.filter((row) => row.length > 1).length,
    lostCount,
    leftOutMessages,
    refused: refusals.rows(),
    tokenCount: sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0),
    longestLength: sequences.reduce((longest, sequence) => Math.max(longest, sequence.tokenIds.length), 0),
    trainableTokenCount: sequences.reduce(
      (sum, sequence) => sum + sequence.lossMask.reduce((ones, bit) => ones + bit, 0),
      0,
    ),
  }
}

function toSequence(
  tokenIds: ArrayLike<number>,
  mask: ArrayLike<number>,
  { lineNumber, weight = 1 }: SftExample,
): SftSequence {
  const lossMask = Uint8Array.from(mask, (bit) => (bit === 0 ? 0 : 1))
  if (lossMask.length > 0) lossMask[0] = 0
  return { tokenIds: Int32Array.from(tokenIds), lossMask, lineNumber, ...(weight === 1 ? {} : { weight }) }
}

function render(example: SftExample, options: SftBatchOptions): ReturnType<SftText['renderTurns']> {
  let turns: ReturnType<SftText['renderTurns']>
  try {
    turns = options.text.renderTurns(
      { messages: example.messages, tools: example.tools },
      example.trainedTurns ?? options.assistantTurns,
    )
  } catch (cause) {
    throw unrenderable(example.lineNumber, cause)
  }
  for (const { tokenIds } of turns.sequences)
    assertInVocabulary(tokenIds, options.text.vocabularySize, example.lineNumber)
  return turns
}

function unrenderable(lineNumber: number, cause: unknown): DataError {
  const reason =
    cause instanceof AppError || cause instanceof Error ? cause.message.replace(/\.$/, '') : 'unknown reason'
  return lineError(
    UNRENDERABLE_EXAMPLE,
    lineNumber,
    `cannot be rendered by the chat template: ${reason.slice(0, 500)}`,
    { cause },
  )
}
