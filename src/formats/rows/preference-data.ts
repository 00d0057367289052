/**
 * Preference pairs (`examples/preference-example.ts`) tokenized and cut into batches.
 *
 * Streams as supervised data does: order is the file's, batch i holds pairs [i * batchSize, (i + 1) * batchSize). A pair of
 * which one answer is longer than the limit, or has nothing to train on, is dropped whole, counted and named by line.
 */
import { AppError } from '#base/errors/errors.js'
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
import { type PreferenceExample, readPreferenceExamples } from './examples/preference-example.js'
import { mayTrain, type RowOptions, type TrainedTurns, withoutWeight } from './examples/sft-example.js'
import { lineError, type RowSource } from './json-lines.js'
import { createDataNotes } from './notes/data-notes.js'

/** Turns a conversation into one sequence; 1 in the mask marks what the chosen turns generate. */
export interface PreferenceText extends LostTokens {
  /** How many token ids the model takes; absent: as many as there are. */
  readonly vocabularySize?: number
  /** Whether the chat template writes reasoning of the assistant. */
  readonly isReasoningRead: boolean
  renderWithMask(
    conversation: { readonly messages: readonly JsonObject[]; readonly tools: readonly JsonObject[] | null },
    turns: TrainedTurns,
  ): {
    readonly tokenIds: ArrayLike<number>
    readonly mask: ArrayLike<number>
    /** The messages that the chat template leaves out, as people are told of them. */
    readonly leftOut: readonly string[]
  }
}

/** One answer behind its prompt; arrays of the same length. */
export interface AnswerSequence {
  readonly tokenIds: Int32Array
  /** 1 on the tokens of the answer. */
  readonly lossMask: Uint8Array
}

/** Two answers to one prompt. */
export interface PreferencePair {
  readonly lineNumber: number
  readonly chosen: AnswerSequence
  readonly rejected: AnswerSequence
}

/** The pairs of one optimizer step. */
export interface PreferenceBatch {
  /** Position among all batches of the file, from 0. */
  readonly index: number
  /** Empty means: no step. */
  readonly pairs: readonly PreferencePair[]
  readonly exampleCount: number
  readonly leftOutLines: LeftOutLines
  readonly leftOutMessages: LeftOutMessages
  readonly refused: RefusedRows
  readonly tokenCount: number
  /** Tokens of both answers. */
  readonly answerTokenCount: number
  readonly longestLength: number
}

export interface PreferenceBatchOptions extends RowOptions {
  readonly text: PreferenceText
  readonly batchSize: number
  /** Longest sequence that is kept, in tokens. */
  readonly maxLength: number
}

/** What a file holds. */
export interface PreferenceSurvey {
  readonly exampleCount: number
  readonly pairCount: number
  readonly batchCount: number
  /** Batches with at least one pair: the number of optimizer steps. */
  readonly trainableBatchCount: number
  readonly overlengthCount: number
  readonly untrainableCount: number
  readonly leftOutLines: LeftOutLines
  readonly leftOutMessages: LeftOutMessages
  readonly refused: RefusedRows
  /** What else is worth saying of the rows, as sentences. */
  readonly notes: readonly string[]
  readonly answerTokenCount: number
  readonly longestLength: number
}

/** Tokenizes a file batch by batch. @throws {DataError} as `readPreferenceExamples` */
export async function* readPreferenceBatches(
  source: RowSource,
  options: PreferenceBatchOptions,
): AsyncGenerator<PreferenceBatch> {
  const readerOptions = { ...options, isReasoningRead: options.text.isReasoningRead }
  let index = 0
  for await (const examples of inBatches(readPreferenceExamples(source, readerOptions), options.batchSize)) {
    yield toBatch(examples, index, options)
    index += 1
  }
}

/** Runs over a file once and adds up its batches. @throws {DataError} `unrenderable_example` where all are refused */
export async function surveyPreferences(source: RowSource, options: PreferenceBatchOptions): Promise<PreferenceSurvey> {
  const total = {
    exampleCount: 0,
    pairCount: 0,
    batchCount: 0,
    trainableBatchCount: 0,
    overlengthCount: 0,
    untrainableCount: 0,
    answerTokenCount: 0,
    longestLength: 0,
  }
  let lines: LeftOutLines = { overlength: [], untrainable: [] }
  let leftOutMessages = NO_MESSAGES
  let refused = NO_REFUSALS
  const notes = createDataNotes()
  for await (const batch of readPreferenceBatches(source, { ...options, notes })) {
    const { overlength, untrainable } = batch.leftOutLines
    total.exampleCount += batch.exampleCount
    total.pairCount += batch.pairs.length
    total.batchCount += 1
    total.trainableBatchCount += batch.pairs.length > 0 ? 1 : 0
    total.overlengthCount += overlength.length
    total.untrainableCount += untrainable.length
    total.answerTokenCount += batch.answerTokenCount
    total.longestLength = Math.max(total.longestLength, batch.longestLength)
    lines = addLeftOut(lines, batch.leftOutLines)
    leftOutMessages = joinLeftOutMessages(leftOutMessages, batch.leftOutMessages)
    refused = joinRefused(refused, batch.refused)
  }
  assertSomeRendered(total.trainableBatchCount, refused)
  return { ...total, leftOutLines: lines, leftOutMessages, refused, notes: notes.sentences() }
}

function toBatch(
  examples: readonly PreferenceExample[],
  index: number,
  options: PreferenceBatchOptions,
): PreferenceBatch {
  let leftOutMessages = NO_MESSAGES
  const refusals = createRefusals()
  const rendered = examples.flatMap((example) => {
    const { lineNumber } = example
    const both = refusals.take(() => ({
      chosen: tokenizeAnswer(example, example.chosen, options.text),
      rejected: tokenizeAnswer(example, example.rejected, options.text),
    }))
    if (both === null) return []
    const { chosen, rejected } = both
    // the prompt is the same in both
    const names = new Set([...chosen.leftOut, ...rejected.leftOut])
    leftOutMessages = addLeftOutMessages(leftOutMessages, lineNumber, [...names])
    noteLostTokens(options, lineNumber, [chosen.sequence])
    return [{ lineNumber, chosen: chosen.sequence, rejected: rejected.sequence }]
  })
  const isLong = (pair: PreferencePair): boolean =>
    answers(pair).some(({ tokenIds }) => tokenIds.length > options.maxLength)
  const isEmpty = (pair: PreferencePair): boolean => answers(pair).some(({ lossMask }) => !lossMask.includes(1))
  const linesOf = (pairs: readonly PreferencePair[]): number[] => pairs.map(({ lineNumber }) => lineNumber)
  const pairs = rendered.filter((pair) => !isLong(pair) && !isEmpty(pair))
  const sequences = pairs.flatMap(answers)
  return {
    index,
    pairs,
    exampleCount: examples.length,
    leftOutLines: {
      overlength: linesOf(rendered.filter(isLong)),
      untrainable: linesOf(rendered.filter((pair) => !isLong(pair) && isEmpty(pair))),
    },
    leftOutMessages,
    refused: refusals.rows(),
    tokenCount: sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    answerTokenCount: sequences.reduce((sum, { lossMask }) => sum + lossMask.reduce((ones, bit) => ones + bit, 0), 0),
    longestLength: sequences.reduce((longest, { tokenIds }) => Math.max(longest, tokenIds.length), 0),
  }
}

/** Both answers of a pair, the chosen one first. */
export function answers({ chosen, rejected }: PreferencePair): readonly [AnswerSequence, AnswerSequence] {
  return [chosen, rejected]
}

export interface TokenizedAnswer {
  readonly sequence: AnswerSequence
  readonly leftOut: readonly string[]
}

/**
 * The assistant turns of the answer train, but those with the weight 0; those of the prompt do not.
 *
 * @throws {DataError} `unrenderable_example`
 */
export function tokenizeAnswer(
  example: Pick<PreferenceExample, 'prompt' | 'tools' | 'lineNumber'>,
  answer: readonly JsonObject[],
  text: PreferenceText,
): TokenizedAnswer {
  const messages = [...example.prompt, ...answer]
  const turns = messages.flatMap((message, m) => (mayTrain(message) && m >= example.prompt.length ? [m] : []))
  let rendered: ReturnType<PreferenceText['renderWithMask']>
  try {
    rendered = text.renderWithMask({ messages: messages.map(withoutWeight), tools: example.tools }, turns)
  } catch (cause) {
    const reason =
      cause instanceof AppError || cause instanceof Error ? cause.message.replace(/\.$/, '') : 'unknown reason'
    throw lineError(
      UNRENDERABLE_EXAMPLE,
      example.lineNumber,
      `cannot be rendered by the chat template: ${reason.slice(0, 500)}`,
      { cause },
    )
  }
  const lossMask = Uint8Array.from(rendered.mask, (bit) => (bit === 0 ? 0 : 1))
  if (lossMask.length > 0) lossMask[0] = 0
  const tokenIds = Int32Array.from(rendered.tokenIds)
  assertInVocabulary(tokenIds, text.vocabularySize, example.lineNumber)
  return { sequence: { tokenIds, lossMask }, leftOut: rendered.leftOut }
}
