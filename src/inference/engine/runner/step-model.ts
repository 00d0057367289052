/**
 * Runs the step graph: owns its session, turns batches into inputs and outputs into rows. Knows nothing of requests or sampling.
 */
import { join } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies, readSlidingFrequencies } from '#model/architectures/rotary-frequencies.js'
import { leastColumns } from '#model/architectures/step-attention.js'
import { buildStepGraph, isHiddenState, STEP_INPUTS, STEP_OUTPUTS } from '#model/architectures/step-graph.js'
import { forDevice } from '#numerics/graph/passes/for-device.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import { rotaryTables } from '#numerics/nn/rotary-embedding.js'
import { productShares } from '#numerics/runtime/product-shares.js'
import { type DeviceTensor, isAccelerated, type Runtime, type Session } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { StepFetch } from '../logits-row.js'
import type { AdapterLayout } from './adapter-layout.js'
import { JoinedAdapters } from './joined-adapters.js'
import { KvOnDevice } from './kv-on-device.js'
import { batchFeeds, cacheFeeds, longestSequence, residentFeeds, type StepBatch, tokenCount } from './step-batch.js'
import { StepSessions } from './step-sessions.js'

// Cos and sin tables of a prepared model, from its stored frequencies.

/**
 * Computes the tables for positions 0..length-1, each [length, D/2]; float64 inside, rounded once.
 */
async function rotaryTablesOf(
  prepared: PreparedModel,
  length: number,
): Promise<{ readonly cos: Float32Array; readonly sin: Float32Array }> {
  return rotaryTables(await readRotaryFrequencies(prepared.tensors('f32')), length)
}

/** Those of sliding layers; null where they are the same. */
async function slidingTablesOf(
  prepared: PreparedModel,
  length: number,
): Promise<{ readonly cos: Float32Array; readonly sin: Float32Array } | null> {
  const frequencies = await readSlidingFrequencies(prepared.tensors('f32'))
  return frequencies === null ? null : rotaryTables(frequencies, length)
}

/** Valid until the model's next step, which may write to the same memory. */
export interface StepResult {
  /** [2L, slots, T, D] */
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
  /** Threads beside a job; null, the default: the same. */
  readonly threadsBesideJob?: number | null | undefined
  /** Positions served; the rotary tables have as many rows. */
  readonly contextLength: number
  /** Memory on a device for copies of keys and values; default 1 GB. The CPU takes them where they lie. */
  readonly kvBytes?: number
}

/** The step graph, loaded. */
export interface StepModel {
  readonly config: DecoderConfig
  readonly sessions: StepSessions
  run(batch: StepBatch, fetch: readonly StepFetch[]): Promise<StepResult>
  release(): Promise<void>
}

/** As many as caches grow by, so that a graph meets few shapes. */
const DEVICE_COLUMNS = 16
/** Symbols of the step graph that are at least 1 on a device: `DEVICE_COLUMNS` for the caches, the others always. */
const NEVER_ZERO = ['P', 'C', 'T', 'N', 'S', 'G', 'R', 'adapters', 'slots']

/** A device refuses kernels without a row: that of the first token is computed, and nobody reads it. */
function withOneRow(batch: StepBatch): StepBatch {
  return batch.logitRows.length > 0 ? batch : { ...batch, logitRows: [0], inverseTemperatures: [1] }
}

/** Memory of a result that is this many times as large as needed is given back. */
const MOST_UNUSED = 4

/** Loads the step graph of a prepared model. */
export async function loadStepModel(options: StepModelOptions): Promise<StepModel> {
  const { config } = options.prepared
  const sessions = await StepSessions.open({
    load: (threads) => loadStepSession(options, { threads }),
    threads: options.threads,
    fewThreads: options.threadsBesideJob ?? null,
    weightBytes: weightBytesOf(options),
  })
  const shares = productShares(options.threads)
  const isOnDevice = isAccelerated(options.runtime)
  // A device takes no product over nothing: columns that are hidden from everybody stand where nothing is cached.
  const least = isOnDevice ? DEVICE_COLUMNS : leastColumns(config, shares)
  const resident = isOnDevice ? await openResident(options, sessions) : null
  const joined = new JoinedAdapters(config, shares)
  const results = new ResultMemory(config)
  return {
    config,
    sessions,
    async run(given, fetch) {
      const batch = isOnDevice ? withOneRow(given) : given
      const session = sessions.current
      const feeds = batchFeeds(config, batch, least)
      Object.assign(feeds, cacheFeeds(config, batch, least), zeroPointFeeds(session, batch), joined.feeds(batch))
      feeds[STEP_INPUTS.wantsLogprobs] = flag(fetch.includes('logprobs'))
      feeds[STEP_INPUTS.wantsProbabilities] = flag(fetch.includes('probabilities'))
      feeds[STEP_INPUTS.hasTemperatures] = flag(batch.inverseTemperatures.some((inverse) => inverse !== 1))
      const wanted = results.tensors(batch, fetch)
      const outputs =
        resident === null
          ? await session.run(feeds, wanted)
          : await withCopies(resident, batch, (copies) => session.run({ ...feeds, ...copies }, wanted))
      return {
        newRows: floats(outputs, STEP_OUTPUTS.newRows),
        logits: fetch.includes('logits') ? floats(outputs, STEP_OUTPUTS.logits) : null,
        logprobs: fetch.includes('logprobs') ? floats(outputs, STEP_OUTPUTS.logprobs) : null,
        probabilities: fetch.includes('probabilities') ? floats(outputs, STEP_OUTPUTS.probabilities) : null,
      }
    },
    async release() {
      await sessions.release()
      await resident?.release()
    },
  }
}

/**
 * Copies of keys and values on the device, where the runtime can leave something there.
 *
 * @param sessions that are released where this fails
 */
async function openResident(
  { runtime, prepared, kvBytes = 1e9 }: StepModelOptions,
  sessions: StepSessions,
): Promise<KvOnDevice | null> {
  const { config, directory } = prepared
  const { layerCount, kvHeadCount, headSize } = config
  const shape = { layerCount, kvHeadCount, headSize }
  try {
    return await KvOnDevice.open(runtime, { shape, mostBytes: kvBytes, directory })
  } catch (error) {
    await sessions.release()
    throw error
  }
}

type Copies = Readonly<Record<string, DeviceTensor>>

/**
 * Runs a step with the copies of its caches on the device. Where the device has no memory for them, or beside them, it runs without any,
 * and its keys and values are sent: slower, and what requests were promised.
 */
async function withCopies<T>(resident: KvOnDevice, batch: StepBatch, run: (copies: Copies) => Promise<T>): Promise<T> {
  try {
    return await run(await residentFeeds(resident, batch).catch(noneIfRefused))
  } catch (error) {
    if (!isRefusedMemory(error) || !resident.drop()) throw error
    return await run({})
  }
}

function noneIfRefused(error: unknown): Copies {
  if (isRefusedMemory(error)) return {}
  throw error
}

function isRefusedMemory(error: unknown): boolean {
  return error instanceof AppError && error.code === 'device_memory'
}

/**
 * Memory that steps write their results to. Fresh arrays for each step, 25 MB of 64 rows over 49,152 tokens, would keep the
 * garbage collector busy, and the system with zeroing pages.
 */
class ResultMemory {
  readonly #config: DecoderConfig
  readonly #arrays = new Map<string, Float32Array>()

  constructor(config: DecoderConfig) {
    this.#config = config
  }

  /** What the step of a batch fills. */
  tensors(batch: StepBatch, fetch: readonly StepFetch[]): Record<string, HostTensor> {
    const { layerCount, kvHeadCount, headSize, vocabularySize } = this.#config
    const slots = batch.groups * batch.width * kvHeadCount
    const rows = [batch.logitRows.length, vocabularySize]
    // Prompts and running choices take turns, and are of different sizes.
    const kind = batch.tails === null ? 'prompts' : 'choices'
    return {
      [STEP_OUTPUTS.newRows]: this.#tensor(`${kind} rows`, [2 * layerCount * slots, longestSequence(batch), headSize]),
      ...Object.fromEntries(fetch.map((name) => [name, this.#tensor(`${kind} ${name}`, rows)])),
    }
  }

  /** Larger memory when it is needed, smaller when most of it is not. */
  #tensor(key: string, shape: readonly number[]): HostTensor {
    const size = shape.reduce((product, dim) => product * dim, 1)
    let array = this.#arrays.get(key)
    if (array === undefined || array.length < size || array.length > MOST_UNUSED * size) {
      array = new Float32Array(size)
      this.#arrays.set(key, array)
    }
    return float32Tensor(array.length === size ? array : array.subarray(0, size), shape)
  }
}

/**
 * Builds a step graph and loads it. Writes nothing.
 *
 * @param variant.threads of the session, where they are fewer than those that the graph is built for; null: all cores
 */
export async function loadStepSession(
  options: StepModelOptions,
  { threads = options.threads, ...variant }: { readonly isObserved?: boolean; readonly threads?: number | null } = {},
): Promise<Session> {
  const { prepared, precision, runtime, contextLength } = options
  const tensors = prepared.tensors(precision)
  const rotary = await rotaryTablesOf(prepared, contextLength)
  const slidingRotary = await slidingTablesOf(prepared, contextLength)
  const { config } = prepared
  const shares = productShares(options.threads)
  const built = buildStepGraph({ config, precision, tensors, rotary, slidingRotary, shares, ...variant })
  const graph = forDevice(built, runtime.device, { neverZero: NEVER_ZERO })
  // From memory: a full disk must not keep a model that is prepared from being served.
  const { directory } = prepared
  const bytes = toOnnxModel(graph, join(directory, 'step.onnx'), isHiddenState)
  return await runtime.loadSession({ bytes, directory }, threads === null ? {} : { threads })
}

/** What the runtime packs for itself, at most. */
function weightBytesOf({ prepared, precision }: StepModelOptions): number {
  return [...prepared.tensors(precision).values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}

/** The middle of the unsigned range, for every row that is quantized. */
function zeroPointFeeds(session: Session, batch: StepBatch): Record<string, HostTensor> {
  const counts = { [STEP_INPUTS.zeroPoints]: tokenCount(batch), [STEP_INPUTS.headZeroPoints]: batch.logitRows.length }
  const feeds: Record<string, HostTensor> = {}
  for (const [name, count] of Object.entries(counts)) {
    if (!session.inputNames.includes(name)) continue
    feeds[name] = { dtype: 'uint8', shape: [count], data: new Uint8Array(count).fill(128) }
  }
  return feeds
}

function flag(value: boolean): HostTensor {
  return { dtype: 'bool', shape: [], data: Uint8Array.of(value ? 1 : 0) }
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
