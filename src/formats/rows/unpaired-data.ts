/**
 * Answers with a label (`examples/unpaired-example.ts`) tokenized and cut into batches, each with a mismatched answer behind its own
 * prompt: the answer of the nearest row before it in the batch (the batch seen as a circle) that has another prompt. Mismatched
 * answers say how far the policy has moved where nothing is labelled (the reference point of KTO, arXiv:2402.01306, section 4.1).
 * Deviation from TRL, which takes the row before it whatever its prompt: answers to one prompt often stand side by side, and a
 * labelled answer to the same prompt is not a mismatched one.
 *
 * Streams as preference pairs do: the order is the file's, and a row that is too long or has nothing to train on is dropped, counted
 * and named by line. A mismatched answer that is too long is left out alone.
 */
import {
  addLeftOut,
  addLeftOutMessages,
  assertSomeRendered,
  createRefusals,
  inBatches,
  joinLeftOutMessages,
  joinRefused,
  type LeftOutLines,
  type LeftOutMessages,
  NO_MESSAGES,
  NO_REFUSALS,
  noteLostTokens,
  type RefusedRows,
} from './examples/batches.js'
import { readUnpairedExamples, type UnpairedExample } from './examples/unpaired-example.js'
import type { RowSource } from './json-lines.js'
import { createDataNotes } from './notes/data-notes.js'
import { type AnswerSequence, type PreferenceBatchOptions, tokenizeAnswer } from './preference-data.js'

/** One labelled answer behind its prompt. */
export interface UnpairedAnswer {
  readonly lineNumber: number
  readonly isDesirable: boolean
  readonly answer: AnswerSequence
  /** An answer to another prompt behind this one; null where the batch has none, or it is too long. */
  readonly mismatched: AnswerSequence | null
}

/** The answers of one optimizer step. */
export interface UnpairedBatch {
  /** Position among all batches of the file, from 0. */
  readonly index: number
  /** Empty means: no step. */
  readonly answers: readonly UnpairedAnswer[]
  readonly exampleCount: number
  readonly leftOutLines: LeftOutLines
  readonly leftOutMessages: LeftOutMessages
  readonly refused: RefusedRows
  /** Of the labelled answers with their prompts. */
  readonly tokenCount: number
  readonly answerTokenCount: number
  /** Mismatched ones too. */
  readonly longestLength: number
}

/** What a file holds. */
export interface UnpairedSurvey {
  readonly exampleCount: number
  readonly answerCount: number
  readonly desirableCount: number
  readonly batchCount: number
  /** Batches with at least one answer: the number of optimizer steps. */
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

/** Tokenizes a file batch by batch. @throws {DataError} as `readUnpairedExamples` */
export async function* readUnpairedBatches(
  source: RowSource,
  options: PreferenceBatchOptions,
): AsyncGenerator<UnpairedBatch> {
  const readerOptions = { ...options, isReasoningRead: options.text.isReasoningRead }
  let index = 0
  for await (const examples of inBatches(readUnpairedExamples(source, readerOptions), options.batchSize)) {
    yield toBatch(examples, index, options)
    index += 1
  }
}

/** Runs over a file once and adds up its batches. @throws {DataError} `unrenderable_example` where all are refused */
export async function surveyUnpaired(source: RowSource, options: PreferenceBatchOptions): Promise<UnpairedSurvey> {
  const total = {
    exampleCount: 0,
    answerCount: 0,
    desirableCount: 0,
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
  for await (const batch of readUnpairedBatches(source, { ...options, notes })) {
    const { overlength, untrainable } = batch.leftOutLines
    total.exampleCount += batch.exampleCount
    total.answerCount += batch.answers.length
    total.desirableCount += batch.answers.filter(({ isDesirable }) => isDesirable).length
    total.batchCount += 1
    total.trainableBatchCount += batch.answers.length > 0 ? 1 : 0
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

function toBatch(examples: readonly UnpairedExample[], index: number, options: PreferenceBatchOptions): UnpairedBatch {
  let leftOutMessages = NO_MESSAGES
  const refusals = createRefusals()
  const rendered = examples.flatMap((example) => {
    const tokenized = refusals.take(() => tokenizeAnswer(example, example.completion, options.text))
    if (tokenized === null) return []
    leftOutMessages = addLeftOutMessages(leftOutMessages, example.lineNumber, tokenized.leftOut)
    if (example.isDesirable) noteLostTokens(options, example.lineNumber, [tokenized.sequence])
    return [{ example, answer: tokenized.sequence }]
  })
  const isLong = ({ tokenIds }: AnswerSequence): boolean => tokenIds.length > options.maxLength
  const isEmpty = ({ lossMask }: AnswerSequence): boolean => !lossMask.includes(1)
  const linesOf = (rows: typeof rendered): number[] => rows.map(({ example: { lineNumber } }) => lineNumber)
  const kept = rendered.filter(({ answer }) => !isLong(answer) && !isEmpty(answer))
  const prompts = kept.map(({ example: { prompt, tools } }) => JSON.stringify([prompt, tools]))
  const answers = kept.map(({ example, answer }, at): UnpairedAnswer => {
    const other = kept[otherBefore(prompts, at) ?? -1]?.example
    // an answer that the template refuses behind this prompt is compared with nothing, as one that is too long
    const mismatched =
      other === undefined
        ? null
        : createRefusals().take(() => tokenizeAnswer(example, other.completion, options.text).sequence)
    return {
      lineNumber: example.lineNumber,
      isDesirable: example.isDesirable,
      answer,
      mismatched: mismatched === null || isLong(mismatched) || isEmpty(mismatched) ? null : mismatched,
    }
  })
  const all = answers.flatMap(({ answer, mismatched }) => (mismatched === null ? [answer] : [answer, mismatched]))
  return {
    index,
    answers,
    exampleCount: examples.length,
    leftOutLines: {
      overlength: linesOf(rendered.filter(({ answer }) => isLong(answer))),
      untrainable: linesOf(rendered.filter(({ answer }) => !isLong(answer) && isEmpty(answer))),
    },
    leftOutMessages,
    refused: refusals.rows(),
    tokenCount: answers.reduce((sum, { answer }) => sum + answer.tokenIds.length, 0),
    answerTokenCount: answers.reduce(
      (sum, { answer }) => sum + answer.lossMask.reduce((ones, bit) => ones + bit, 0),
      0,
    ),
    longestLength: all.reduce((longest, { tokenIds }) => Math.max(longest, tokenIds.length), 0),
  }
}

/** The nearest place before this one, in a circle, with another prompt; null for none. */
function otherBefore(prompts: readonly string[], at: number): number | null {
  for (let back = 1; back < prompts.length; back += 1) {
    const place = (at - back + prompts.length) % prompts.length
    if (prompts[place] !== prompts[at]) return place
  }
  return null
}
