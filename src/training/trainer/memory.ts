/**
 * How much memory a gradient takes, when its activations are computed again instead of kept, and whether a job fits at all.
 *
 * Recomputing changes no number, so what is free on the machine may decide it. How rows are batched would change the order of
 * sums, and depends on nothing but the data.
 * An estimate from the shapes that autodiff keeps; checked against measured peaks in the training bench, within a third.
 */
import { AppError, TrainingError } from '#base/errors/errors.js'
import { inMegabytes } from '#base/machine/memory.js'
import { type DecoderConfig, hasSlidingLayers } from '#model/architectures/decoder-config.js'
import { attentionBlockRows, DENSE_ATTENTION_TOKENS } from '#training/rows/attention-blocks.js'
import type { LossKind } from './train-graph.js'

/** Activations above this are computed again layer by layer: a third more time, a third of the memory. */
const KEPT_ACTIVATION_BYTES = 2 * 2 ** 30

/** Tokens, padding included, that go through a graph at once where rows are short; a single longer row goes alone. */
export const MICRO_BATCH_TOKENS = 1024

/** Size of one micro-batch. */
export interface BatchSize {
  readonly rows: number // B
  readonly length: number // T
}

/** Bytes of the activations that the backward pass of one micro-batch needs, all layers together. */
export function activationBytes(config: DecoderConfig, { rows, length }: BatchSize): number {
  const { hiddenSize, headCount, kvHeadCount, headSize, mlpSize, layerCount } = config
  // Two residuals; q, k, v rotated and attention's output; gate and up. Norms, activations and probabilities are made again.
  const perToken = 2 * hiddenSize + (2 * headCount + 2 * kvHeadCount) * headSize + 2 * mlpSize
  return 4 * layerCount * rows * length * perToken
}

/** Whether the train graph of a job should recompute, from its largest micro-batch. Depends on nothing else, so it is reproducible. */
export function needsRecomputation(config: DecoderConfig, largest: BatchSize): boolean {
  return activationBytes(config, largest) > KEPT_ACTIVATION_BYTES
}

/** The one of several micro-batches whose rows take most memory: the most tokens, and of those the longest rows. */
export function largestBatch(sizes: readonly BatchSize[]): BatchSize {
  const isLarger = (a: BatchSize, b: BatchSize): boolean => {
    const difference = a.rows * a.length - b.rows * b.length
    return difference > 0 || (difference === 0 && a.length > b.length)
  }
  return sizes.reduce((largest, size) => (isLarger(size, largest) ? size : largest), { rows: 1, length: 1 })
}

/** Trained positions whose logits exist at once, and how many arrays of that size the head holds. */
const HEAD_ROWS = 256
const HEAD_ARRAYS = 3
/** Further ones where rows say which tokens could be drawn: logits of those alone, and of either kind. */
const KEPT_HEAD_ARRAYS = 2
/** Arrays of a layer's size that live while the layer is computed again and differentiated. */
const LAYER_ARRAYS = 3
/** Scores, probabilities and their gradients, of one layer at a time. */
const SCORE_ARRAYS = 3

/** Bytes that one micro-batch needs beside the weights, its layers computed again. A low estimate: what is left out is small. */
export function recomputedBytes(config: DecoderConfig, size: BatchSize): number {
  const { hiddenSize, headCount, headSize, layerCount } = config
  // What enters a layer, and attention's output, which is not computed twice.
  const kept = 4 * layerCount * size.rows * size.length * (hiddenSize + headCount * headSize)
  return kept + workingBytes(config, size)
}

/** Bytes that one micro-batch needs beside the weights, its layers' activations kept. */
function keptBytes(config: DecoderConfig, size: BatchSize): number {
  return activationBytes(config, size) + workingBytes(config, size)
}

/** Of scores and probabilities, no gradient of them. */
const FORWARD_SCORE_ARRAYS = 2

/**
 * Bytes that rows take that are only measured: one layer at a time, and nothing that waits for a backward pass. Measured with 135M
 * parameters, in MB: four rows of 256 tokens 203 (177 here), one of 1,024 204 (185), of 4,096 369 (329).
 */
export function forwardBytes(config: DecoderConfig, size: BatchSize): number {
  const { layerCount, vocabularySize } = config
  const layer = activationBytes(config, size) / layerCount
  const head = 4 * HEAD_ARRAYS * HEAD_ROWS * vocabularySize
  return layer + FORWARD_SCORE_ARRAYS * scoreBytes(config, size) + head + maskBytes(config, size)
}

/** Bytes that live while one layer, or the head, is computed. The mask alone grows with the square of a row: 34 MB at 8,192 tokens. */
function workingBytes(config: DecoderConfig, size: BatchSize): number {
  const { layerCount, vocabularySize } = config
  const layer = (LAYER_ARRAYS * activationBytes(config, size)) / layerCount
  const head = 4 * HEAD_ARRAYS * HEAD_ROWS * vocabularySize
  return layer + SCORE_ARRAYS * scoreBytes(config, size) + head + maskBytes(config, size)
}

/** Bytes of one array of a layer's attention scores. */
function scoreBytes({ headCount }: DecoderConfig, { rows, length }: BatchSize): number {
  const queries = length > DENSE_ATTENTION_TOKENS ? attentionBlockRows(rows * length) : rows * length
  return 4 * headCount * queries * length
}

/** Who sees whom, a byte for each pair up to the query, and another for layers with a window. */
function maskBytes(config: DecoderConfig, { rows, length }: BatchSize): number {
  return ((hasSlidingLayers(config) ? 2 : 1) * rows * length ** 2) / 2
}

/** What makes the rows of a job shorter, by the loss they train with; not every kind of job has the same options. */
const SHORTER_ROWS: Readonly<Record<LossKind['kind'], string>> = {
  policy: 'train on shorter trajectories, set a smaller packed_sequence_length',
  cross_entropy: 'train on shorter rows',
  preference: 'train on shorter pairs',
  summed: 'send shorter sequences',
}

/** Whether a run ended because the processor's or a device's memory did not suffice. */
export function isOutOfMemory(cause: unknown): boolean {
  if (!(cause instanceof AppError)) return false
  return cause.code === 'device_memory' || /bad.?alloc|allocate memory|out of memory/i.test(cause.message)
}

/** What to do when a job's memory does not suffice, as a hint. */
export function memoryRemedy(needs: Pick<MemoryNeeds, 'loss' | 'measured'>): string {
  return `${SHORTER_ROWS[needs.loss]}, ${hasValidation(needs) ? 'give shorter validation rows, ' : ''}or free memory`
}

/** What a policy job only measures are rows that it trains on too. */
function hasValidation({ loss, measured }: Pick<MemoryNeeds, 'loss' | 'measured'>): boolean {
  return measured !== null && loss !== 'policy'
}

/** What of a job takes memory beside the weights. */
export interface MemoryNeeds {
  readonly loss: LossKind['kind']
  /** The largest micro-batch that is trained on. */
  readonly largest: BatchSize
  /** The largest batch that is only measured while the trainer holds its memory, of validation rows or a policy job's own; null: none. */
  readonly measured: BatchSize | null
  /** Rows say which tokens could be drawn; default false. */
  readonly hasKeptSets?: boolean
}

/** Tokens of the longest row that runs in a job's graphs: validation rows run in those of the same model. */
export function longestRow({ largest, measured }: Pick<MemoryNeeds, 'largest' | 'measured'>): number {
  return Math.max(largest.length, measured?.length ?? 0)
}

/** What a job's largest micro-batch takes and how it is computed. */
export interface MemoryPlan {
  readonly isRecomputed: boolean
  /** Bytes beside the weights, an estimate. */
  readonly neededBytes: number
  /** Bytes the process could get when the job began; null where nobody measured. */
  readonly availableBytes: number | null
}

/**
 * Decides how a job's gradients are computed.
 *
 * Rows that are trained on and rows that are only measured run in sessions of their own, and each keeps the memory of its largest
 * batch for the next one: the job needs both at once.
 *
 * @param available bytes this process can still get; null decides by size alone
 * @throws {TrainingError} `out_of_memory` with the figures when not even recomputing fits
 */
export function planMemory(config: DecoderConfig, needs: MemoryNeeds, available: number | null): MemoryPlan {
  const { largest, measured, hasKeptSets = false } = needs
  const sets = hasKeptSets ? 4 * KEPT_HEAD_ARRAYS * HEAD_ROWS * config.vocabularySize : 0
  const forward = measured === null ? sets : forwardBytes(config, measured) + 2 * sets
  const kept = keptBytes(config, largest) + forward
  const recomputed = recomputedBytes(config, largest) + forward
  // Half of what is free: the estimate is within a third, and others live here too.
  const isShort = available !== null && kept > available / 2
  const isRecomputed = needsRecomputation(config, largest) || isShort
  if (available !== null && recomputed > available) {
    const rows =
      measured !== null && hasValidation(needs)
        ? `the longest row of ${largest.length} tokens and the longest validation row of ${measured.length} together need`
        : `the longest row of ${largest.length} tokens needs`
    throw new TrainingError(
      'out_of_memory',
      `${rows} about ${inMegabytes(recomputed)} beside the weights, but ${inMegabytes(available)} are available`,
      { hint: memoryRemedy(needs) },
    )
  }
  return { isRecomputed, neededBytes: isRecomputed ? recomputed : kept, availableBytes: available }
}

/** A plan as figures of a job's report. */
export function memoryFacts({ isRecomputed, neededBytes, availableBytes }: MemoryPlan): Record<string, number> {
  return {
    needed_bytes: Math.round(neededBytes),
    ...(availableBytes === null ? {} : { available_bytes: availableBytes }),
    recomputed: isRecomputed ? 1 : 0,
  }
}
