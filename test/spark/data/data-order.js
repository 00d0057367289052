/**
 * The training rows as micro-batches, in an order that a number tells: what makes a run resumable.
 *
 * Every micro-batch has about the same number of tokens and rows of one length. Files are read from front to back, the one
 * that is least far read first, so their shares are those of the mixture at any time; at their ends they start again.
 */
import { join } from 'node:path'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { perToken, toRowBatch } from '#training/trainer/row-batch.js'
import { LOSS, openRows, REAL, START } from './mixture.js'

/** Trained positions whose logits exist at once: 33 MB for a vocabulary of 4,096. */
export const HEAD_CHUNK = 2048

/** @typedef {import('../../../src/training/trainer/row-batch.js').Row} Row @typedef {import('../../../src/training/trainer/learner/learner.js').MicroBatch} MicroBatch */

/** A packed row as the trainer takes it: each sequence a segment with positions of its own. @param {import('./mixture.js').PackedTokens} packed @returns {Row} */
export function toRow({ ids, flags }) {
  const length = ids.length
  const row = {
    tokens: Int32Array.from(ids),
    positions: new Int32Array(length),
    groupIds: new Int32Array(length).fill(-1),
    parentIds: new Int32Array(length).fill(-1),
    lossMask: Uint8Array.from(flags, (flag) => (flag & LOSS) / LOSS),
  }
  let segment = -1
  let position = 0
  for (let at = 0; at < length; at++) {
    if ((flags[at] & REAL) === 0) continue
    if ((flags[at] & START) !== 0) {
      segment++
      position = 0
    }
    row.positions[at] = position++
    row.groupIds[at] = segment
    row.parentIds[at] = segment
  }
  return row
}

/**
 * Micro-batches of one optimizer step, which share a denominator: the step's loss is the mean over its trained tokens.
 *
 * @param {readonly Row[][]} batches
 * @returns {{ microBatches: MicroBatch[], tokens: number, trained: number }}
 */
export function toMicroBatches(batches) {
  const laid = batches.map((rows) => toRowBatch(rows, { chunk: HEAD_CHUNK }))
  const trained = laid.reduce((sum, batch) => sum + batch.trained.length, 0)
  const denominator = float32Tensor(Float32Array.of(trained), [])
  return {
    microBatches: laid.map((batch) => ({ batch, lossInputs: { weight: perToken(batch, () => 1), denominator } })),
    tokens: batches.flat().reduce((sum, row) => sum + row.groupIds.filter((group) => group >= 0).length, 0),
    trained,
  }
}

/**
 * Opens the training files of a mixture.
 *
 * @param {string} directory
 * @param {{ train: { file: string, rowLength: number, rows: number }[] }} manifest
 * @param {number} microBatchTokens rows times their length
 */
export function openTrainingData(directory, manifest, microBatchTokens) {
  const filled = manifest.train.filter(({ rows }) => rows > 0)
  const files = filled.map(({ file, rowLength, rows }) => {
    // A file of fewer rows than a micro-batch has is one smaller micro-batch.
    const size = Math.max(1, Math.min(rows, Math.floor(microBatchTokens / rowLength)))
    return { ...openRows(join(directory, file), rowLength), size, rows, batches: Math.floor(rows / size), done: 0 }
  })
  return {
    /** Rows of the next micro-batch. */
    next() {
      const file = files.reduce((best, other) => (other.done / other.batches < best.done / best.batches ? other : best))
      const first = (file.done % file.batches) * file.size
      file.done++
      return Array.from({ length: file.size }, (_, index) => toRow(file.read(first + index)))
    },
    /** Micro-batches until every file was read once; rows that do not fill a last one are left out. */
    epochLength: files.reduce((sum, { batches }) => sum + batches, 0),
    /** How many micro-batches each file gave. */
    get position() {
      return files.map(({ done }) => done)
    },
    /** Goes on where a position was taken. @param {readonly number[]} position */
    seek(position) {
      for (const [index, file] of files.entries()) file.done = position[index] ?? 0
    },
    close() {
      for (const file of files) file.close()
    },
  }
}

/**
 * Rows of every held-out source.
 *
 * @param {string} directory
 * @param {{ heldOut: Record<string, { rows: number, rowLength: number }> }} manifest
 * @param {number} limit rows of a source
 * @returns {Map<string, Row[]>}
 */
export function readHeldOut(directory, manifest, limit) {
  return new Map(
    Object.entries(manifest.heldOut).map(([name, { rows, rowLength }]) => {
      const file = openRows(join(directory, 'held-out', `${name}.bin`), rowLength)
      const read = Array.from({ length: Math.min(rows, limit) }, (_, index) => toRow(file.read(index)))
      file.close()
      return [name, read]
    }),
  )
}
