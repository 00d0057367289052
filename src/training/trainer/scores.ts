/**
 * Forward passes without a gradient: log-probabilities of the trained tokens of rows under an adapter.
 */
import type { AdapterWeights } from '#model/weights/adapter.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { JobContext, rowSettings } from './job.js'
import type { RowBatch } from './row-batch.js'
import { adapterFeeds } from './trainer.js'

/** A job with the settings of its graphs. */
export type ScoringContext = JobContext & Awaited<ReturnType<typeof rowSettings>>

/** Log-probabilities of a batch's trained tokens, padding at the end. */
export type Score = (batch: RowBatch) => Promise<Float32Array>

/** A frozen policy: an adapter, or null for the base model. */
export type ReferencePolicy = AdapterWeights | null

/** A loaded engine under one adapter. */
export interface Scores {
  readonly score: Score
  release(): Promise<void>
}

/**
 * Opens an engine for an adapter, whose values are read at each call.
 *
 * Memory: one engine, until it is released.
 */
export async function openScores(
  context: Pick<ScoringContext, 'engines' | 'adapter'>,
  adapter: ReferencePolicy,
): Promise<Scores> {
  const engine = await context.engines.score((adapter ?? context.adapter).config)
  const feeds = adapter === null ? withoutAdapter(adapterFeeds(context.adapter)) : adapterFeeds(adapter)
  return {
    score: async (batch) => float32Of((await engine.run(batch, feeds, {}, ['logp']))['logp']),
    release: () => engine.release(),
  }
}

/** Every B zero: the base model itself. */
function withoutAdapter(feeds: Readonly<Record<string, HostTensor>>): Record<string, HostTensor> {
  return Object.fromEntries(
    Object.entries(feeds).map(([name, { shape, data }]) => [name, float32Tensor(new Float32Array(data.length), shape)]),
  )
}

function float32Of(tensor: HostTensor | undefined): Float32Array {
  if (tensor?.dtype !== 'float32') throw new Error('the engine returned no log-probabilities')
  return tensor.data
}
