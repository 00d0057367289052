/**
 * The sequences of a batch as rows of a graph: sequences of similar length together, at most `MICRO_BATCH_TOKENS` tokens each.
 */

import type { SftBatch, SftSequence, SftSurvey } from '#formats/rows/sft-data.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { type BatchSize, MICRO_BATCH_TOKENS } from '#training/trainer/memory.js'
import { perToken, type RowBatch, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'

/** Rows are padded to a multiple of this, so that memory is reused between steps of similar length. */
const ROW_MULTIPLE = 16

type Masked = Pick<SftSequence, 'tokenIds' | 'lossMask'>

/** Rows that run together, and the weight of each. */
export interface WeightedRows {
  readonly batch: RowBatch
  readonly weights: readonly number[]
}

/** Sequences that run together, the longest first; a longer one than the limit goes alone. */
function partSequences<Sequence extends Masked>(sequences: readonly Sequence[]): Sequence[][] {
  const sorted = sequences
    .map((sequence, index) => ({ sequence, index }))
    .sort((a, b) => b.sequence.tokenIds.length - a.sequence.tokenIds.length || a.index - b.index)
  const parts: Sequence[][] = []
  for (const { sequence } of sorted) {
    const part = parts.at(-1)
    const length = padded(part?.[0]?.tokenIds.length ?? 1)
    if (part !== undefined && (part.length + 1) * length <= MICRO_BATCH_TOKENS) part.push(sequence)
    else parts.push([sequence])
  }
  return parts
}

/** Sizes of the row batches that sequences make. */
export function rowBatchSizes(sequences: readonly Masked[]): BatchSize[] {
  return partSequences(sequences).map((part) => ({
    rows: part.length,
    length: padded(part[0]?.tokenIds.length ?? 1),
  }))
}

/** Lays out sequences. */
export function toRowBatches(sequences: readonly (Masked & Pick<SftSequence, 'weight'>)[]): WeightedRows[] {
  return partSequences(sequences).map((part) => ({
    weights: part.map(({ weight = 1 }) => weight),
    batch: toRowBatch(
      part.map(({ tokenIds, lossMask }) => sequenceRow(tokenIds, lossMask)),
      { length: padded(part[0]?.tokenIds.length ?? 1) },
    ),
  }))
}

/**
 * Cuts a batch into the micro-batches of one optimizer step. A token's loss is multiplied by the weight of its row; the sum is divided
 * by the trained tokens of all, whatever they weigh: a row of weight 2 pulls as two copies of it would, also where it is alone.
 */
export function toMicroBatches(batch: Pick<SftBatch, 'sequences'>): MicroBatch[] {
  const ready = toRowBatches(batch.sequences)
  const tokenCount = ready.reduce((sum, { batch: { trained } }) => sum + trained.length, 0)
  const denominator = float32Tensor(Float32Array.of(tokenCount), [])
  return ready.map(({ batch: rows, weights }) => ({
    batch: rows,
    lossInputs: { denominator, weight: perToken(rows, ({ row }) => weights[row] ?? 1) },
  }))
}

/** The largest micro-batch the data can make. */
export function largestMicroBatch({ longestLength }: Pick<SftSurvey, 'longestLength'>): BatchSize {
  const length = padded(Math.max(1, longestLength))
  return { rows: Math.max(1, Math.floor(MICRO_BATCH_TOKENS / length)), length }
}

function padded(length: number): number {
  return Math.ceil(length / ROW_MULTIPLE) * ROW_MULTIPLE
}
