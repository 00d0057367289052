/**
 * Single answers as rows of a graph, and their log-probabilities in the order of their batch.
 */
import type { AnswerSequence } from '#formats/rows/preference-data.js'
import type { UnpairedSurvey } from '#formats/rows/unpaired-data.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { type BatchSize, MICRO_BATCH_TOKENS } from '#training/trainer/memory.js'
import { type RowBatch, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import type { Score } from '#training/trainer/scores.js'
import { paddedLength } from '../dpo-rows.js'

/** Some answers of a batch: row i is the answer at `indices[i]`. */
export interface AnswerRows {
  readonly indices: readonly number[]
  readonly batch: RowBatch
}

interface Entry {
  readonly answer: AnswerSequence
  readonly index: number
}

/** Answers that run together, the longest first; a longer one than the limit goes alone. */
function partAnswers(answers: readonly AnswerSequence[]): Entry[][] {
  const sorted = answers
    .map((answer, index) => ({ answer, index }))
    .sort((a, b) => b.answer.tokenIds.length - a.answer.tokenIds.length || a.index - b.index)
  const parts: Entry[][] = []
  for (const entry of sorted) {
    const part = parts.at(-1)
    if (part !== undefined && (part.length + 1) * lengthOf(part) <= MICRO_BATCH_TOKENS) part.push(entry)
    else parts.push([entry])
  }
  return parts
}

function lengthOf([longest]: readonly Entry[]): number {
  return paddedLength(longest?.answer.tokenIds.length ?? 1)
}

/** Sizes of the batches that answers run in. */
export function answerBatchSizes(answers: readonly AnswerSequence[]): BatchSize[] {
  return partAnswers(answers).map((part) => ({ rows: part.length, length: lengthOf(part) }))
}

/** The largest micro-batch the data can make. */
export function largestAnswerBatch({ longestLength }: Pick<UnpairedSurvey, 'longestLength'>): BatchSize {
  const length = paddedLength(Math.max(1, longestLength))
  return { rows: Math.max(1, Math.floor(MICRO_BATCH_TOKENS / length)), length }
}

/** Answers as rows of graphs. */
export function toAnswerRows(answers: readonly AnswerSequence[]): AnswerRows[] {
  return partAnswers(answers).map((part) => ({
    indices: part.map(({ index }) => index),
    batch: toRowBatch(
      part.map(({ answer: { tokenIds, lossMask } }) => sequenceRow(tokenIds, lossMask)),
      { length: lengthOf(part) },
    ),
  }))
}

/** Whose tokens are whose, with the sign of each answer: [N, P]. */
export function answerMatrix({ batch, indices }: AnswerRows, signs: readonly number[]): HostTensor<'float32'> {
  const data = new Float32Array(batch.paddedCount * indices.length)
  batch.trained.forEach(({ row }, n) => {
    data[n * indices.length + row] = signs[indices[row] as number] as number
  })
  return float32Tensor(data, [batch.paddedCount, indices.length])
}

/** Log-probability of each answer, summed over its tokens, in the order of the batch. */
export function sumAnswers(parts: readonly AnswerRows[], outputs: readonly Float32Array[]): Float64Array {
  const sums = new Float64Array(parts.reduce((count, { indices }) => count + indices.length, 0))
  parts.forEach(({ batch, indices }, p) => {
    batch.trained.forEach(({ row }, n) => {
      const index = indices[row] as number
      sums[index] = (sums[index] as number) + (outputs[p]?.[n] ?? Number.NaN)
    })
  })
  return sums
}

/** The same by a forward pass. */
export async function scoreAnswers(answers: readonly AnswerSequence[], score: Score): Promise<Float64Array> {
  const parts = toAnswerRows(answers)
  const outputs: Float32Array[] = []
  for (const { batch } of parts) outputs.push(await score(batch))
  return sumAnswers(parts, outputs)
}
