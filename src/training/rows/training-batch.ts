/**
 * Turns trajectory groups into the optimizer steps of one train call: advantages, batch scaling, which sequences make a step, and
 * the packed rows each step is computed in, with counts of everything that was left out.
 *
 * Deterministic: the same groups, options and seed give the same steps and rows, byte for byte.
 */

import type { TrajectoryGroup } from '../../formats/rows/trajectory.js'
import { normalizeBatch } from './advantages.js'
import { attentionBlockRows, attentionBlocks, attentionPairs, DENSE_ATTENTION_TOKENS } from './attention-blocks.js'
import { partitionSteps, stepLengthFor } from './optimizer-steps.js'
import { type PackedRow, packRows } from './pack.js'
import {
  type HistorySplits,
  NAMED_PATHS,
  type TokenizeOptions,
  type TrainingSequence,
  tokenizeGroups,
} from './tokenize.js'
import type { SkipCounts, SkipReason } from './turns.js'

/** Options of `buildTrainingBatch`. */
export interface TrainingBatchOptions extends TokenizeOptions {
  readonly advantageBalance: number
  /** Advantages are divided by their mean size; default, as null, true. */
  readonly scaleBatch?: boolean | null
  /** Tokens that `constant` aggregation divides an answer by; default, as null, the mean number of the call. */
  readonly maxCompletionLength?: number | null
  /** Tokens of ART's packed row: longer sequences are dropped, and an optimizer step covers one. Null for automatic. */
  readonly packedSequenceLength: number | null
  /** Tokens of an optimizer step when they shall not follow from the row length; drops nothing. Null for one row. */
  readonly tokensPerStep: number | null
  /** ART's packed rows per optimizer step. */
  readonly gradAccumulationSequences: number
  /** The model's longest sequence, in tokens. */
  readonly contextLength: number
  /** Token id of padding: the end-of-sequence id. */
  readonly padTokenId: number
  /** Seeds the order of steps. */
  readonly seed: string | number
  /** Rows are padded to a multiple of this many tokens; default 32. */
  readonly padMultiple?: number | undefined
  /** Most tokens of a row that is computed; default by `computedRowLength`. No value changes what is learnt. */
  readonly rowLength?: number | undefined
}

/** One optimizer step: rows whose gradients are added up. */
export interface PackedStep {
  readonly rows: readonly PackedRow[]
  readonly sequenceCount: number
  /** What the step's loss is divided by. */
  readonly trainableTokenCount: number
}

/** Steps in training order and what they hold. */
export interface TrainingBatch {
  /** Empty when nothing can be trained on: the job then makes a checkpoint without a gradient step. */
  readonly steps: readonly PackedStep[]
  /** Most tokens one of ART's rows holds. */
  readonly stepLength: number
  readonly skips: SkipCounts
  /** Histories that prefix merging cut into several sequences. */
  readonly unmergedHistoryCount: number
  /** Of each reason, the paths of the first trajectories it befell. */
  readonly examples: ReadonlyMap<SkipReason, readonly string[]>
  readonly splits: HistorySplits
  /** Trajectories with at least one packed sequence. */
  readonly trainedTrajectoryCount: number
  /** What is packed, in the order of groups and trajectories, advantage and weight scaled. */
  readonly sequences: readonly TrainingSequence[]
  readonly trainableTokenCount: number
}

/** Computed rows are a multiple of this many tokens, at least. */
const ROW_MULTIPLE = 256
/** Rows up to this length are tried in order to store shared prompts less often. */
const MAX_TRIED_ROW_LENGTH = 2048
/** Attention is taken to cost as much as everything else where a query meets this many keys: an estimate by operation counts, not fitted. */
const ATTENTION_LENGTH = 2048

/**
 * Builds the steps of a train call.
 *
 * Advantages and trajectory weights are computed before overlength sequences are dropped; batch scaling and the length of a
 * step follow from what is left, so that an answer that is dropped changes nothing else about the training.
 *
 * @throws {DataError} as `tokenizeGroups`
 */
export function buildTrainingBatch(groups: readonly TrajectoryGroup[], options: TrainingBatchOptions): TrainingBatch {
  const { sequences, skips, unmergedHistoryCount, examples, splits } = tokenizeGroups(groups, options)
  const limit = Math.min(options.packedSequenceLength ?? options.contextLength, options.contextLength)
  const kept = sequences.filter((sequence) => sequence.tokenIds.length <= limit)
  for (const { tokenIds, groupIndex, trajectoryIndex } of sequences) {
    if (tokenIds.length > limit) options.onLeftOut?.('overlength', groupIndex, trajectoryIndex)
  }
  const coefficients = normalizeBatch(kept, options.advantageBalance, options.scaleBatch ?? true)
  const scaled = kept.map((sequence, index) => ({ ...sequence, ...coefficients[index] }))
  const lengths = scaled.map((sequence) => sequence.tokenIds.length)
  const stepLength = stepLengthFor(lengths, options)
  const artRows = partitionSteps(scaled, { stepLength, seed: options.seed })
  const parts = joined(artRows, options.gradAccumulationSequences)
  const padding = { padTokenId: options.padTokenId, padMultiple: options.padMultiple ?? 32 }
  const longest = lengths.reduce((max, length) => Math.max(max, length), 1)
  const rowLength = Math.max(options.rowLength ?? computedRowLength(parts, padding), longest)
  return {
    steps: equalized(parts, options).map((part) => ({
      rows: packRows(part, { ...padding, rowLength }),
      sequenceCount: part.length,
      trainableTokenCount: countTrainable(part),
    })),
    stepLength,
    skips: { ...skips, overlength: sequences.length - kept.length },
    unmergedHistoryCount,
    examples: new Map([...examples, ['overlength', overlengthPaths(sequences, limit)]]),
    splits,
    trainedTrajectoryCount: trajectoryCount(scaled),
    sequences: scaled,
    trainableTokenCount: countTrainable(scaled),
  }
}

/**
 * Length of the rows that a call is computed in: of a few multiples of 256, the one that costs least, counting stored tokens
 * and their attention. Longer rows store a shared prompt less often; shorter ones attend to less that is masked.
 */
export function computedRowLength(
  parts: readonly (readonly TrainingSequence[])[],
  padding: { readonly padTokenId: number; readonly padMultiple: number },
): number {
  const longest = parts.flat().reduce((max, { tokenIds }) => Math.max(max, tokenIds.length), 1)
  const least = Math.ceil(longest / ROW_MULTIPLE) * ROW_MULTIPLE
  let best = { rowLength: least, cost: Number.POSITIVE_INFINITY }
  for (let rowLength = least; rowLength === least || rowLength <= MAX_TRIED_ROW_LENGTH; rowLength *= 2) {
    const rows = parts.flatMap((part) => packRows(part, { ...padding, rowLength }))
    const cost = rows.reduce((sum, row) => sum + packedRowCost(row), 0)
    if (cost < best.cost) best = { rowLength, cost }
  }
  return best.rowLength
}

/** What a row of one sequence costs, in tokens of short rows: stored tokens and their attention. */
export function rowCost(length: number): number {
  const block = attentionBlockRows(length)
  return costOf(length, length > DENSE_ATTENTION_TOKENS ? (length + Math.min(block, length)) / 2 : length)
}

/** The same of a packed row, whose segments attend to less. */
export function packedRowCost(row: PackedRow): number {
  const { length } = row.tokens
  if (length <= DENSE_ATTENTION_TOKENS) return rowCost(length)
  return costOf(length, attentionPairs(attentionBlocks(row, attentionBlockRows(length))) / length)
}

/** @param keys that a query meets on average */
function costOf(length: number, keys: number): number {
  return length * (1 + keys / ATTENTION_LENGTH)
}

/** Where the first sequences longer than the limit come from. */
function overlengthPaths(sequences: readonly TrainingSequence[], limit: number): string[] {
  const paths = sequences.flatMap(({ tokenIds, groupIndex, trajectoryIndex }) =>
    tokenIds.length > limit ? [`trajectory_groups[${groupIndex}].trajectories[${trajectoryIndex}]`] : [],
  )
  return [...new Set(paths)].slice(0, NAMED_PATHS)
}

/** Consecutive rows of ART's that make one optimizer step together. */
function joined<Sequence>(rows: readonly (readonly Sequence[])[], count: number): Sequence[][] {
  return Array.from({ length: Math.ceil(rows.length / count) }, (_, i) => rows.slice(i * count, (i + 1) * count).flat())
}

/**
 * A step's loss is divided by its own token count; under `constant` aggregation weights undo it, so that every trained token
 * of the call counts the same whatever its step: 1 / (trajectories of a step on average * tokens of an answer).
 *
 * Source: Dr. GRPO (arXiv:2503.20783), listing 1, where the tokens are a constant too. Theirs is the generation budget.
 */
function equalized(
  parts: readonly (readonly TrainingSequence[])[],
  { lossAggregation, maxCompletionLength }: Pick<TrainingBatchOptions, 'lossAggregation' | 'maxCompletionLength'>,
): readonly (readonly TrainingSequence[])[] {
  if (lossAggregation !== 'constant') return parts
  const all = parts.flat()
  const length = maxCompletionLength ?? countTrainable(all) / trajectoryCount(all)
  const meanCount = (trajectoryCount(all) / parts.length) * length
  return parts.map((part) => {
    const factor = countTrainable(part) / meanCount
    return part.map((sequence) => ({ ...sequence, weight: sequence.weight * factor }))
  })
}

function trajectoryCount(sequences: readonly TrainingSequence[]): number {
  return new Set(sequences.map(({ groupIndex, trajectoryIndex }) => `${groupIndex}:${trajectoryIndex}`)).size
}

function countTrainable(sequences: readonly TrainingSequence[]): number {
  return sequences.reduce((sum, sequence) => sum + sequence.trainableTokenCount, 0)
}
