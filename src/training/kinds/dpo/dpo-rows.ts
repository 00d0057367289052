/**
 * Preference pairs as rows of a graph: both answers of a pair run in the same batch, and a matrix says which tokens
 * belong to which answer.
 */

import { maxOf } from '#base/util/lists.js'
import { answers, type PreferencePair, type PreferenceSurvey } from '#formats/rows/preference-data.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { type BatchSize, MICRO_BATCH_TOKENS } from '#training/trainer/memory.js'
import { type RowBatch, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'

/** Rows are padded to a multiple of this, so that memory is reused between steps of similar length. */
const ROW_MULTIPLE = 16

/** Some pairs of a batch: rows 2i and 2i + 1 are the chosen and the rejected answer of pair i. */
export interface PairRows {
  /** Position of each pair in its batch. */
  readonly indices: readonly number[]
  readonly batch: RowBatch
}

interface PairEntry {
  readonly pair: PreferencePair
  readonly index: number
  readonly length: number
}

/** How pairs of a batch run: apart where they are many tokens, or all at once, as a loss needs that compares them. */
interface PairParting {
  readonly isTogether?: boolean
}

/** Pairs that run together, the longest first; a longer one than the limit goes alone. */
function partPairs(pairs: readonly PreferencePair[], { isTogether = false }: PairParting): PairEntry[][] {
  const sorted = pairs
    .map((pair, index) => ({ pair, index, length: pairLength(pair) }))
    .sort((a, b) => b.length - a.length || a.index - b.index)
  const parts: PairEntry[][] = []
  for (const entry of sorted) {
    const part = parts.at(-1)
    const length = part?.[0]?.length ?? 1
    const fits = isTogether || 2 * ((part?.length ?? 0) + 1) * length <= MICRO_BATCH_TOKENS
    if (part !== undefined && fits) part.push(entry)
    else parts.push([entry])
  }
  return parts
}

/** Sizes of the batches that pairs run in. */
export function pairBatchSizes(pairs: readonly PreferencePair[], parting: PairParting = {}): BatchSize[] {
  return partPairs(pairs, parting).map((part) => ({ rows: 2 * part.length, length: part[0]?.length ?? 1 }))
}

/** The largest micro-batch the data can make. @param together pairs of a batch that runs at once; null: they run apart */
export function largestPairBatch(
  { longestLength }: Pick<PreferenceSurvey, 'longestLength'>,
  together: number | null = null,
): BatchSize {
  const length = paddedLength(Math.max(1, longestLength))
  return { rows: 2 * (together ?? Math.max(1, Math.floor(MICRO_BATCH_TOKENS / (2 * length)))), length }
}

/** Pairs as rows of graphs. */
export function toPairRows(pairs: readonly PreferencePair[], parting: PairParting = {}): PairRows[] {
  return partPairs(pairs, parting).map((part) => ({
    indices: part.map(({ index }) => index),
    batch: toRowBatch(
      part.flatMap(({ pair }) => answers(pair).map(({ tokenIds, lossMask }) => sequenceRow(tokenIds, lossMask))),
      { length: part[0]?.length ?? 1 },
    ),
  }))
}

/** Padded tokens of the longer answer. */
export function pairLength(pair: PreferencePair): number {
  return paddedLength(maxOf(answers(pair).map(({ tokenIds }) => tokenIds.length)))
}

/** Tokens of a row that holds so many. */
export function paddedLength(length: number): number {
  return Math.ceil(length / ROW_MULTIPLE) * ROW_MULTIPLE
}

/**
 * Whose tokens are whose: [N, P], positive for the chosen answer of a pair, negative for its rejected one.
 *
 * @param isMean by size 1 / tokens of the answer, so that the sum is their mean; else 1
 */
export function pairMatrix({ batch, indices }: PairRows, isMean: boolean): HostTensor<'float32'> {
  const data = new Float32Array(batch.paddedCount * indices.length)
  const counts = new Map<number, number>()
  for (const { row } of batch.trained) counts.set(row, (counts.get(row) ?? 0) + 1)
  batch.trained.forEach(({ row }, n) => {
    const share = isMean ? 1 / (counts.get(row) ?? 1) : 1
    data[n * indices.length + (row >> 1)] = row % 2 === 0 ? share : -share
  })
  return float32Tensor(data, [batch.paddedCount, indices.length])
}

/** Of each token of a chosen answer `1 / tokenCount`, else 0: [N]. */
export function chosenShare({ batch }: PairRows, tokenCount: number): HostTensor<'float32'> {
  const data = new Float32Array(batch.paddedCount)
  batch.trained.forEach(({ row }, n) => {
    data[n] = row % 2 === 0 ? 1 / tokenCount : 0
  })
  return float32Tensor(data, [batch.paddedCount])
}

/** How many tokens the chosen answers have that train. */
export function chosenTokenCount(parts: readonly PairRows[]): number {
  return parts.reduce((sum, { batch }) => sum + batch.trained.filter(({ row }) => row % 2 === 0).length, 0)
}

/** What was said of both answers of each pair. */
interface Answers {
  readonly chosen: Float64Array
  readonly rejected: Float64Array
}

/** Log-probability of each answer, summed over its tokens. */
export interface AnswerLogps extends Answers {
  /** How many tokens were summed; 0 where nothing was scored. */
  readonly tokens: Answers
}

/** Adds up the log-probabilities of rows into those of the batch's pairs. */
export function addAnswerLogps(sums: AnswerLogps, { batch, indices }: PairRows, logp: Float32Array): void {
  batch.trained.forEach(({ row }, n) => {
    const pair = indices[row >> 1] as number
    const side = row % 2 === 0 ? 'chosen' : 'rejected'
    sums[side][pair] = (sums[side][pair] as number) + (logp[n] as number)
    sums.tokens[side][pair] = (sums.tokens[side][pair] as number) + 1
  })
}

/** The mean of each answer's tokens; 0 where nothing was scored. */
export function meanLogps({ chosen, rejected, tokens }: AnswerLogps): Answers {
  const mean = (sums: Float64Array, counts: Float64Array): Float64Array =>
    sums.map((sum, pair) => sum / Math.max(1, counts[pair] as number))
  return { chosen: mean(chosen, tokens.chosen), rejected: mean(rejected, tokens.rejected) }
}

/** Zeros. */
export function noLogps(pairCount: number): AnswerLogps {
  const zeros = (): Answers => ({ chosen: new Float64Array(pairCount), rejected: new Float64Array(pairCount) })
  return { ...zeros(), tokens: zeros() }
}
