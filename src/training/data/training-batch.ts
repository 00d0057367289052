/**
 * Turns trajectory groups into the packed rows of one train call: advantages, tokens, batch scaling, packing, with counts
 * of everything that was left out.
 *
 * Deterministic: the same groups, options and seed give the same rows, byte for byte.
 */
import { normalizeBatch } from './advantages.js'
import { type PackedRow, packRows, rowLengthFor } from './pack.js'
import { type TokenizeOptions, tokenizeGroups } from './tokenize.js'
import type { TrajectoryGroup } from './trajectory.js'
import type { SkipCounts } from './turns.js'

/** Options of `buildTrainingBatch`. */
export interface TrainingBatchOptions extends TokenizeOptions {
  readonly advantageBalance: number
  /** Tokens per row; null for automatic. */
  readonly packedSequenceLength: number | null
  /** The model's longest sequence, in tokens. */
  readonly contextLength: number
  /** Token id of padding: the end-of-sequence id. */
  readonly padTokenId: number
  /** Seeds the order of rows. */
  readonly seed: string | number
  /** Rows are padded to a multiple of this many tokens; default 32. */
  readonly padMultiple?: number | undefined
}

/** Rows in training order and what they hold. */
export interface TrainingBatch {
  /** Empty when nothing can be trained on: the job then makes a checkpoint without a gradient step. */
  readonly rows: readonly PackedRow[]
  readonly rowLength: number
  readonly skips: SkipCounts
  /** Trajectories with at least one packed sequence. */
  readonly trainedTrajectoryCount: number
  readonly sequenceCount: number
  readonly trainableTokenCount: number
}

/**
 * Builds the rows of a train call.
 *
 * Advantages and trajectory weights are computed before overlength sequences are dropped; batch scaling runs over what is left.
 *
 * @throws {DataError} as `tokenizeGroups`
 */
export function buildTrainingBatch(groups: readonly TrajectoryGroup[], options: TrainingBatchOptions): TrainingBatch {
  const { sequences, skips } = tokenizeGroups(groups, options)
  const lengths = sequences.map((sequence) => sequence.tokenIds.length)
  const rowLength = rowLengthFor(lengths, options)
  const limit = Math.min(rowLength, options.contextLength)
  const fitting = sequences.filter((sequence) => sequence.tokenIds.length <= limit)
  const coefficients = normalizeBatch(fitting, options.advantageBalance)
  const scaled = fitting.map((sequence, index) => ({ ...sequence, ...coefficients[index] }))
  return {
    rows: packRows(scaled, { ...options, rowLength, padMultiple: options.padMultiple ?? 32 }),
    rowLength,
    skips: { ...skips, overlength: sequences.length - fitting.length },
    trainedTrajectoryCount: new Set(scaled.map((sequence) => `${sequence.groupIndex}:${sequence.trajectoryIndex}`))
      .size,
    sequenceCount: scaled.length,
    trainableTokenCount: scaled.reduce((sum, sequence) => sum + sequence.trainableTokenCount, 0),
  }
}
