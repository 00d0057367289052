/**
 * Runs the step graph: owns its session, turns batches into inputs and outputs into rows. Knows nothing of requests or sampling.
 */
import { join } from 'node:path'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import { buildStepGraph, STEP_INPUTS, STEP_OUTPUTS } from '#model/architectures/step-graph.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import type { Runtime, Session } from '#numerics/runtime/runtime.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { AdapterLayout } from './adapters/adapter-layout.js'
import { JoinedAdapters } from './adapters/joined-adapters.js'
import { rotaryTablesOf, slidingTablesOf } from './rotary-tables.js'
import { batchFeeds, cacheFeeds, type StepBatch, tokenCount } from './step-batch.js'

/** What a step may return besides the new keys and values. */
export type StepFetch = 'logits' | 'logprobs' | 'probabilities'

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
  /** Positions served; the rotary tables have as many rows. */
  readonly contextLength: number
}

/** The step graph, loaded. */
export interface StepModel {
  readonly config: DecoderConfig
  run(batch: StepBatch, fetch: readonly StepFetch[]): Promise<StepResult>
  release(): Promise<void>
}

/** Loads the step graph of a prepared model. */
export async function loadStepModel(options: StepModelOptions): Promise<StepModel> {
  const { config } = options.prepared
  const session = await loadStepSession(options)
  const joined = new JoinedAdapters(config)
  return {
    config,
    async run(batch, fetch) {
      const feeds: Record<string, HostTensor> = { ...batchFeeds(config, batch), ...cacheFeeds(config, batch) }
      Object.assign(feeds, zeroPointFeeds(session, batch), joined.feeds(batch))
      const wanted = Uint8Array.of(fetch.includes('probabilities') ? 1 : 0)
      feeds[STEP_INPUTS.wantsProbabilities] = { dtype: 'bool', shape: [], data: wanted }
      const outputs = await session.run(feeds, [STEP_OUTPUTS.newRows, ...fetch])
      return {
        newRows: floats(outputs, STEP_OUTPUTS.newRows),
        logits: fetch.includes('logits') ? floats(outputs, STEP_OUTPUTS.logits) : null,
        logprobs: fetch.includes('logprobs') ? floats(outputs, STEP_OUTPUTS.logprobs) : null,
        probabilities: fetch.includes('probabilities') ? floats(outputs, STEP_OUTPUTS.probabilities) : null,
      }
    },
    async release() {
      await session.release()
    },
  }
}

/** Builds a step graph and loads it. Writes nothing. */
export async function loadStepSession(
  options: StepModelOptions,
  variant: { readonly isObserved?: boolean } = {},
): Promise<Session> {
  const { prepared, precision, runtime, threads, contextLength } = options
  const tensors = prepared.tensors(precision)
  const rotary = await rotaryTablesOf(prepared, contextLength)
  const slidingRotary = await slidingTablesOf(prepared, contextLength)
  const graph = buildStepGraph({ config: prepared.config, precision, tensors, rotary, slidingRotary, ...variant })
  // From memory: a full disk must not keep a model that is prepared from being served.
  const { directory } = prepared
  const bytes = toOnnxModel(graph, join(directory, 'step.onnx'))
  return await runtime.loadSession({ bytes, directory }, threads === null ? {} : { threads })
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
