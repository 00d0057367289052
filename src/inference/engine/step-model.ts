/**
 * Runs the step graph: owns its sessions, turns batches into inputs and outputs into rows.
 *
 * Two graphs share one prepared file: without adapters, and with adapters as inputs, whose session is made at first use.
 * Float32 has only the second (rank 0 stands for no adapter), because each session re-packs its weights in memory.
 * Knows nothing of requests or sampling.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemIds } from '#base/util/ids.js'
import type { JoinedProjection } from '#model/architectures/decoder.js'
import { type DecoderConfig, parameterCount } from '#model/architectures/decoder-config.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import {
  adapterInput,
  adapterMaskInput,
  buildStepGraph,
  cacheInput,
  STEP_INPUTS,
  STEP_OUTPUTS,
} from '#model/architectures/step-graph.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import type { Runtime, Session } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import {
  type AdapterLayout,
  adapterMask,
  inputSizeOf,
  JOINED_PROJECTIONS,
  joinLayouts,
  outputSizeOf,
  siteOf,
} from './adapter-layout.js'
import type { KvCache } from './cache/kv-cache.js'
import { rotaryTablesOf } from './rotary-tables.js'

/** A rectangular batch: `batch` sequences of `tokens` new tokens each. */
export interface StepBatch {
  /** [tokens, batch] row-major: token t of sequence b at t * batch + b. */
  readonly ids: Int32Array
  readonly batch: number
  readonly tokens: number
  /** Tokens each sequence has in the cache. */
  readonly starts: readonly number[]
  /** Rows 0..batch-1 are the sequences; null: nothing cached for any of them. */
  readonly cache: KvCache | null
  /** Flat rows (t * batch + b) whose logits are wanted, at least one. */
  readonly logitRows: readonly number[]
  /** One per logit row. */
  readonly inverseTemperatures: readonly number[]
  /** Adapters present in the batch, and which of them each sequence uses (-1: none). */
  readonly adapters: readonly AdapterLayout[]
  readonly adapterOfSequence: readonly number[]
}

/** What a step may return besides the new keys and values. */
export type StepFetch = 'logits' | 'logprobs' | 'probabilities'

export interface StepResult {
  /** [2L, batch * K, tokens, D] */
  readonly newRows: Float32Array
  /** [W, V] each; absent if not fetched. */
  readonly logits: Float32Array | null
  readonly logprobs: Float32Array | null
  readonly probabilities: Float32Array | null
}

export interface StepModelOptions {
  readonly runtime: Runtime
  readonly prepared: PreparedModel
  readonly precision: Precision
  readonly threads: number | null
  /** Positions served; the rotary tables have as many rows. */
  readonly contextLength: number
}

/** Parameters up to which float32 serving keeps one session with adapters and one without. */
const SMALL_MODEL = 50_000_000

/** The step graph, loaded. */
export interface StepModel {
  readonly config: DecoderConfig
  run(batch: StepBatch, fetch: readonly StepFetch[]): Promise<StepResult>
  release(): Promise<void>
}

/** Loads the step graph of a prepared model. */
export async function loadStepModel(options: StepModelOptions): Promise<StepModel> {
  const { config } = options.prepared
  // Float32 weights are mapped once per session; a small model can afford both sessions, and its steps are mostly overhead.
  const hasOneSession = options.precision === 'f32' && parameterCount(config) > SMALL_MODEL
  let plain: Session | null = hasOneSession ? null : await loadSession(options, false)
  let adapted: Session | null = hasOneSession ? await loadSession(options, true) : null
  const joined = new JoinedAdapters(config)
  const emptyCache = new EmptyCache(config)

  async function sessionFor(batch: StepBatch): Promise<Session> {
    if (batch.adapters.length === 0 && plain !== null) return plain
    adapted ??= await loadSession(options, true)
    return adapted
  }

  return {
    config,
    async run(batch, fetch) {
      const session = await sessionFor(batch)
      const feeds: Record<string, HostTensor> = { ...batchFeeds(config, batch), ...emptyCache.feeds(batch) }
      if (session === adapted) Object.assign(feeds, joined.feeds(batch))
      const outputs = await session.run(feeds, [STEP_OUTPUTS.newRows, ...fetch])
      return {
        newRows: floats(outputs, STEP_OUTPUTS.newRows),
        logits: fetch.includes('logits') ? floats(outputs, STEP_OUTPUTS.logits) : null,
        logprobs: fetch.includes('logprobs') ? floats(outputs, STEP_OUTPUTS.logprobs) : null,
        probabilities: fetch.includes('probabilities') ? floats(outputs, STEP_OUTPUTS.probabilities) : null,
      }
    },
    async release() {
      await plain?.release()
      await adapted?.release()
      plain = null
      adapted = null
    },
  }
}

async function loadSession(options: StepModelOptions, hasAdapters: boolean): Promise<Session> {
  const { prepared, precision, runtime, threads, contextLength } = options
  const tensors = prepared.tensors(precision)
  const rotary = await rotaryTablesOf(prepared, contextLength)
  const graph = buildStepGraph({ config: prepared.config, precision, tensors, rotary, hasAdapters })
  // External data must lie beside or below the model file, so the model is written next to the weights.
  await mkdir(prepared.directory, { recursive: true })
  const path = join(prepared.directory, `step-${precision}-${systemIds.uuid()}.onnx`)
  try {
    await writeOnnxModel(graph, path)
    return await runtime.loadSession(path, threads === null ? {} : { threads })
  } finally {
    await rm(path, { force: true })
  }
}

/** Inputs that depend on the batch's shape and tokens. */
function batchFeeds(config: DecoderConfig, batch: StepBatch): Record<string, HostTensor> {
  const { kvHeadCount, headSize, headCount } = config
  const group = headCount / kvHeadCount
  const heads = batch.batch * kvHeadCount
  const { tokens } = batch
  const capacity = batch.cache?.capacity ?? 0
  const ids = new BigInt64Array(batch.ids.length)
  for (let i = 0; i < ids.length; i++) ids[i] = BigInt(batch.ids[i] as number)
  const positions = new BigInt64Array(heads * tokens)
  for (let head = 0; head < heads; head++) {
    const start = batch.starts[Math.floor(head / kvHeadCount)] as number
    for (let t = 0; t < tokens; t++) positions[head * tokens + t] = BigInt(start + t)
  }
  return {
    [STEP_INPUTS.ids]: { dtype: 'int64', shape: [ids.length], data: ids },
    [STEP_INPUTS.positions]: { dtype: 'int64', shape: [heads, tokens], data: positions },
    [STEP_INPUTS.headsShape]: int64Tensor([tokens, heads, (group + 2) * headSize]),
    [STEP_INPUTS.queriesShape]: int64Tensor([heads, tokens * group, headSize]),
    [STEP_INPUTS.attendedShape]: int64Tensor([heads, tokens, group * headSize]),
    [STEP_INPUTS.keySizes]: int64Tensor([capacity, tokens]),
    [STEP_INPUTS.bias]: tokens === 1 ? decodeBias(config, batch, capacity) : prefillBias(config, batch, capacity),
    [STEP_INPUTS.logitRows]: int64Tensor(batch.logitRows),
    [STEP_INPUTS.inverseTemperatures]: float32Tensor(Float32Array.from(batch.inverseTemperatures), [
      batch.logitRows.length,
      1,
    ]),
  }
}

/** One new token per sequence: [B*K, 1, C+1], columns beyond a sequence's length are forbidden. */
function decodeBias(config: DecoderConfig, batch: StepBatch, capacity: number): HostTensor {
  const { kvHeadCount } = config
  const heads = batch.batch * kvHeadCount
  const bias = new Float32Array(heads * (capacity + 1))
  for (let head = 0; head < heads; head++) {
    const length = batch.starts[Math.floor(head / kvHeadCount)] as number
    const row = head * (capacity + 1)
    bias.fill(Number.NEGATIVE_INFINITY, row + length, row + capacity)
  }
  return float32Tensor(bias, [heads, 1, capacity + 1])
}

/**
 * Several new tokens: [1, T*H/K, C+T], causal among the new ones.
 *
 * All sequences have the same number of cached tokens. Sequences shorter than T are padded at their end, where causality
 * keeps real tokens from seeing the padding.
 */
function prefillBias(config: DecoderConfig, batch: StepBatch, capacity: number): HostTensor {
  const group = config.headCount / config.kvHeadCount
  const { tokens } = batch
  const start = batch.starts[0] ?? 0
  const columns = capacity + tokens
  const bias = new Float32Array(tokens * group * columns)
  for (let t = 0; t < tokens; t++) {
    for (let q = 0; q < group; q++) {
      const row = (t * group + q) * columns
      bias.fill(Number.NEGATIVE_INFINITY, row + start, row + capacity)
      bias.fill(Number.NEGATIVE_INFINITY, row + capacity + t + 1, row + columns)
    }
  }
  return float32Tensor(bias, [1, tokens * group, columns])
}

/** Cache inputs: the cache's own memory, or empty tensors when nothing is cached. */
class EmptyCache {
  readonly #config: DecoderConfig

  constructor(config: DecoderConfig) {
    this.#config = config
  }

  feeds(batch: StepBatch): Record<string, HostTensor> {
    const { layerCount, kvHeadCount, headSize } = this.#config
    const feeds: Record<string, HostTensor> = {}
    const empty = float32Tensor(new Float32Array(0), [batch.batch * kvHeadCount, 0, headSize])
    for (let layer = 0; layer < layerCount; layer++) {
      feeds[cacheInput(layer, 'keys')] = batch.cache?.tensor(layer, 0) ?? empty
      feeds[cacheInput(layer, 'values')] = batch.cache?.tensor(layer, 1) ?? empty
    }
    return feeds
  }
}

/** Adapter inputs; the joined matrices of the last set of adapters are kept, because batches rarely change. */
class JoinedAdapters {
  readonly #config: DecoderConfig
  #layouts: readonly AdapterLayout[] | null = null
  #matrices: Record<string, HostTensor> = {}

  constructor(config: DecoderConfig) {
    this.#config = config
  }

  feeds(batch: StepBatch): Record<string, HostTensor> {
    if (!this.#isCurrent(batch.adapters)) {
      this.#layouts = batch.adapters
      this.#matrices = this.#join(batch.adapters)
    }
    const feeds = { ...this.#matrices }
    for (const site of JOINED_PROJECTIONS) feeds[adapterMaskInput(site)] = this.#mask(batch, site)
    return feeds
  }

  #mask(batch: StepBatch, site: JoinedProjection): HostTensor {
    const width = batch.adapters.reduce((sum, layout) => sum + layout.widths[site], 0)
    const isUniform = batch.adapters.length === 1 && batch.adapterOfSequence.every((adapter) => adapter === 0)
    if (isUniform || batch.adapters.length === 0) return float32Tensor(new Float32Array(width).fill(1), [1, width])
    const adapterOfToken = Array.from(batch.ids, (_, row) => batch.adapterOfSequence[row % batch.batch] ?? -1)
    return float32Tensor(adapterMask(batch.adapters, site, adapterOfToken), [adapterOfToken.length, width])
  }

  #isCurrent(layouts: readonly AdapterLayout[]): boolean {
    const known = this.#layouts
    return known !== null && known.length === layouts.length && known.every((layout, i) => layout === layouts[i])
  }

  #join(layouts: readonly AdapterLayout[]): Record<string, HostTensor> {
    const joined = layouts.length === 0 ? null : joinLayouts(this.#config, layouts)
    const matrices: Record<string, HostTensor> = {}
    for (let layer = 0; layer < this.#config.layerCount; layer++) {
      for (const site of JOINED_PROJECTIONS) {
        const weights = joined === null ? null : siteOf(joined, layer, site)
        const width = weights?.width ?? 0
        const [inputSize, outputSize] = [inputSizeOf(this.#config, site), outputSizeOf(this.#config, site)]
        const none = new Float32Array(0)
        matrices[adapterInput(layer, site, 'a')] = float32Tensor(weights?.a ?? none, [width, inputSize])
        matrices[adapterInput(layer, site, 'b')] = float32Tensor(weights?.b ?? none, [width, outputSize])
      }
    }
    return matrices
  }
}

function floats(outputs: Readonly<Record<string, HostTensor>>, name: string): Float32Array {
  const tensor = outputs[name]
  if (tensor?.dtype !== 'float32') throw new Error(`step graph returned no float32 output "${name}"`)
  return tensor.data
}

/** The adapters of a batch without repetition, and each sequence's place among them (-1: none). */
export function distinctAdapters(layouts: readonly (AdapterLayout | null)[]): {
  readonly adapters: readonly AdapterLayout[]
  readonly indexOf: readonly number[]
} {
  const adapters: AdapterLayout[] = []
  const indexOf = layouts.map((layout) => {
    if (layout === null) return -1
    const known = adapters.indexOf(layout)
    return known >= 0 ? known : adapters.push(layout) - 1
  })
  return { adapters, indexOf }
}
