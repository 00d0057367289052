/**
 * Rows of a training session as micro-batches: similar lengths together, every position trained, by the data alone.
 */
import type { LossSequence } from '#formats/training-loop/loss-inputs.js'
import { MICRO_BATCH_TOKENS } from '#training/trainer/memory.js'
import { labelledRow, type RowBatch, toRowBatch } from '#training/trainer/row-batch.js'

/** Rows are padded to a multiple of this, so that memory is reused between steps of similar length. */
const ROW_MULTIPLE = 16

/** Rows that go through the graph together. */
export interface SessionBatch {
  readonly batch: RowBatch
  /** Index in the request of each row of the batch. */
  readonly rows: readonly number[]
}

/** Cuts a request's rows into batches, the longest first; a row beyond the limit goes alone. */
export function toSessionBatches(sequences: readonly Pick<LossSequence, 'tokens' | 'targets'>[]): SessionBatch[] {
  const order = sequences
    .map(({ tokens }, index) => ({ index, length: padded(tokens.length) }))
    .sort((a, b) => b.length - a.length || a.index - b.index)
  const parts: { readonly length: number; readonly rows: number[] }[] = []
  for (const { index, length } of order) {
    const part = parts.at(-1)
    if (part !== undefined && (part.rows.length + 1) * part.length <= MICRO_BATCH_TOKENS) part.rows.push(index)
    else parts.push({ length, rows: [index] })
  }
  return parts.map(({ length, rows }) => {
    const labelled = rows.map((index) => {
      const { tokens, targets } = sequences[index] as LossSequence
      return labelledRow(tokens, targets)
    })
    return { batch: toRowBatch(labelled, { length }), rows }
  })
}

/** Per-token outputs of a batch as one array per row of the request. */
export function scatterTokens(into: Float32Array[], { batch, rows }: SessionBatch, values: Float32Array): void {
  batch.trained.forEach(({ row, index }, n) => {
    const target = into[rows[row] as number] as Float32Array
    // a label stands at the position that predicts it
    target[index - 1] = values[n] as number
  })
}

function padded(length: number): number {
  return Math.ceil(length / ROW_MULTIPLE) * ROW_MULTIPLE
}
