/**
 * How much memory a gradient takes, and when its activations are computed again instead of kept.
 *
 * An estimate from the shapes that autodiff keeps; checked against measured peaks in the training bench, within a third.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'

/** Activations above this are computed again layer by layer: a third more time, a fraction of the memory. */
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
  // Two residuals and two normed inputs; q, k, v rotated and attention's output; gate, up, silu(gate) and the product.
  const perToken = 4 * hiddenSize + (2 * headCount + 2 * kvHeadCount) * headSize + 4 * mlpSize
  const attention = headCount * length // one row of probabilities per token
  return 4 * layerCount * rows * length * (perToken + attention)
}

/** Whether the train graph of a job should recompute, from its largest micro-batch. Depends on nothing else, so it is reproducible. */
export function needsRecomputation(config: DecoderConfig, largest: BatchSize): boolean {
  return activationBytes(config, largest) > KEPT_ACTIVATION_BYTES
}

/** The one of several micro-batches whose rows take most memory; attention grows with the square of their length. */
export function largestBatch(sizes: readonly BatchSize[]): BatchSize {
  const attention = ({ rows, length }: BatchSize): number => rows * length * length
  return sizes.reduce((largest, size) => (attention(size) > attention(largest) ? size : largest), {
    rows: 1,
    length: 1,
  })
}
