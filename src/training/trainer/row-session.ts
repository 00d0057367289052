/**
 * A row graph loaded and ready to run: feeds in the form the trainer has them, outputs as host tensors.
 *
 * The model file is written beside the prepared weights, because external data must lie below the model's directory,
 * and is deleted once the session is loaded. Float32 weights are mapped, never copied: prepacking is off, so that the
 * forward product and the gradient through a weight share one copy; integer weights are copied anyway. Memory patterns
 * are off: row lengths change from step to step, and a pattern would reserve a run's peak again, beside what the arena
 * already holds (135M, 1,024 tokens: 4.2 GB instead of 2.6).
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemIds } from '#base/util/ids.js'
import type { Graph } from '#numerics/graph/graph.js'
import { forDevice } from '#numerics/graph/passes/for-device.js'
import { optimize } from '#numerics/graph/passes/optimize.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { rotaryTables } from '#numerics/nn/rotary-embedding.js'
import type { Runtime, Session, SessionOptions } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GradientEngine } from './gradient-engine.js'
import { blockFeeds, denseBias, nothingKept } from './row-batch.js'

/** Where a row graph runs. */
export interface RowSessionOptions extends Pick<SessionOptions, 'threads' | 'profilePrefix'> {
  readonly runtime: Runtime
  /** Directory of the prepared base model. */
  readonly directory: string
  /** Radians per position of each pair of a head, [D/2]. */
  readonly frequencies: Float64Array
  /** Those of sliding layers where they differ, [D/2]. */
  readonly slidingFrequencies?: Float64Array | null
  /** Positions that sliding layers see; absent where there are none. */
  readonly slidingWindow?: number | undefined
  /** Constant weights are packed for the processor; default false. By the job alone: packed float32 products round otherwise. */
  readonly isPrepacked?: boolean
  /** Most queries of a block, where attention goes in blocks; default what suits each batch. */
  readonly attentionBlock?: number | undefined
}

/** Sizes of row graphs that are at least 1: a batch has rows and tokens, and a block of queries sees itself. */
const NEVER_ZERO = ['B', 'T', 'HalfRows', 'Keys']

/** Tables grow in steps of this many positions. */
const TABLE_STEP = 1024

/**
 * Writes a graph, loads it and removes the file again.
 *
 * @throws {RuntimeError} `runtime_failed` if the runtime refuses the model
 */
export async function openRowSession(graph: Graph, options: RowSessionOptions): Promise<GradientEngine> {
  const { frequencies, slidingFrequencies = null, slidingWindow, attentionBlock } = options
  const session = await openGraphSession(graph, options)
  const known = new Set(session.inputNames)
  const tablesFor = (length: number): Tables => ({
    ...toTables(frequencies, length),
    ...(slidingFrequencies === null ? {} : { sliding: toTables(slidingFrequencies, length) }),
  })
  let tables = tablesFor(TABLE_STEP)
  return {
    run: (batch, adapter, lossInputs = {}, fetches) => {
      const needed = Math.ceil(batch.length / TABLE_STEP) * TABLE_STEP
      if (needed > tables.length) tables = tablesFor(needed)
      const { cos, sin, sliding } = tables
      const windowed = sliding === undefined ? {} : { sliding_cos: sliding.cos, sliding_sin: sliding.sin }
      const blocks = known.has('block_starts')
        ? blockFeeds(batch, {
            most: attentionBlock,
            window: known.has('block_hidden_sliding') ? slidingWindow : undefined,
          })
        : {}
      const whole = known.has('bias') && batch.feeds['bias'] === undefined ? { bias: denseBias(batch) } : {}
      if (!known.has('kept_ids') && batch.feeds['kept_ids'] !== undefined) {
        throw new Error('the batch has kept sets, and the graph was built without them')
      }
      const kept = known.has('kept_ids') && batch.feeds['kept_ids'] === undefined ? nothingKept(batch) : {}
      const feeds = { ...batch.feeds, ...whole, ...kept, ...blocks, cos, sin, ...windowed, ...adapter, ...lossInputs }
      const wanted = Object.entries(feeds).filter(([name]) => known.has(name))
      return session.run(Object.fromEntries(wanted), fetches)
    },
    release: () => session.release(),
  }
}

/** As `openRowSession`, for a graph with feeds of its own. */
export function openGraphSession(
  graph: Graph,
  {
    runtime,
    directory,
    threads,
    profilePrefix,
    isPrepacked = false,
  }: Omit<RowSessionOptions, 'frequencies' | 'slidingFrequencies' | 'slidingWindow' | 'attentionBlock'>,
): Promise<Session> {
  const path = join(directory, `${graph.name}.${systemIds.uuid()}.onnx`)
  const options = {
    ...(threads === undefined ? {} : { threads }),
    ...(profilePrefix === undefined ? {} : { profilePrefix }),
    isPrepacked,
    hasMemoryPattern: false,
  }
  const placed = forDevice(optimize(graph), runtime.device, { neverZero: NEVER_ZERO })
  return loadOnce(placed, path, () => runtime.loadSession(path, options))
}

async function loadOnce<T>(graph: Graph, path: string, load: () => Promise<T>): Promise<T> {
  try {
    await writeOnnxModel(graph, path)
    return await load()
  } finally {
    await rm(path, { force: true })
  }
}

interface Tables {
  readonly cos: HostTensor
  readonly sin: HostTensor
  readonly length: number
  readonly sliding?: Omit<Tables, 'sliding'>
}

function toTables(frequencies: Float64Array, length: number): Tables {
  const { cos, sin } = rotaryTables(frequencies, length)
  const shape = [length, frequencies.length]
  return { cos: float32Tensor(cos, shape), sin: float32Tensor(sin, shape), length }
}
