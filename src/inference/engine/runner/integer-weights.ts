/**
 * int8 weights for products of 8-bit integers: whether such products are exact and faster on this machine, and the
 * calibration the weights need.
 */
import { loadIntegerProbe } from '#model/architectures/integer/integer-probe.js'
import { type PreparedModel, prepareIntegerProducts } from '#model/architectures/prepare.js'
import { leastColumns } from '#model/architectures/step-attention.js'
import { observedOutput } from '#model/architectures/step-graph.js'
import { int } from '#numerics/graph/attributes.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import { productShares } from '#numerics/runtime/product-shares.js'
import type { Runtime, Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { JOINED_PROJECTIONS } from './adapter-layout.js'
import { batchFeeds, cacheFeeds } from './step-batch.js'
import { loadStepSession } from './step-model.js'

/** Tokens of one calibration step, and at most in all. */
const CHUNK = 128
const MOST_TOKENS = 1024

/**
 * The prepared model with int8 weights for integer products; prepared on first use, which takes a few seconds.
 *
 * @param options.calibrationIds ordinary text of the model's language, some hundred tokens
 */
export async function withIntegerProducts(
  prepared: PreparedModel,
  options: {
    readonly runtime: Runtime
    readonly threads: number | null
    readonly calibrationIds: readonly number[]
  },
): Promise<PreparedModel> {
  return await prepareIntegerProducts(prepared, () => observeInputs(prepared, options))
}

/** Runs the float32 model over the text and takes the largest magnitude of each input channel of each layer. */
async function observeInputs(
  prepared: PreparedModel,
  options: {
    readonly runtime: Runtime
    readonly threads: number | null
    readonly calibrationIds: readonly number[]
  },
): Promise<ReadonlyMap<string, Float32Array>> {
  const { config } = prepared
  const { runtime, threads, calibrationIds } = options
  const names = Array.from({ length: config.layerCount }, (_, layer) =>
    JOINED_PROJECTIONS.map((site) => `layers.${layer}.${site === 'qkv' ? 'qkv_grouped' : site}`),
  ).flat()
  names.push('head')
  const loading = { runtime, prepared, precision: 'f32', threads, contextLength: CHUNK } as const
  const session = await loadStepSession(loading, { isObserved: true })
  const least = leastColumns(config, productShares(threads))
  const maxima = new Map<string, Float32Array>()
  try {
    for (let start = 0; start < Math.min(calibrationIds.length, MOST_TOKENS); start += CHUNK) {
      const ids = calibrationIds.slice(start, start + CHUNK)
      const sequence = { row: 0, member: 0, ids, promptLength: 0, tailLength: 0, adapter: -1 }
      const batch = {
        sequences: [sequence],
        groups: 1,
        width: 1,
        prompts: null,
        tails: null,
        logitRows: ids.map((_, i) => i),
        inverseTemperatures: ids.map(() => 1),
        adapters: [],
      }
      const feeds = { ...batchFeeds(config, batch, least), ...cacheFeeds(config, batch, least) }
      const outputs = await session.run(feeds, names.map(observedOutput))
      for (const name of names) {
        const tensor = outputs[observedOutput(name)]
        if (tensor?.dtype !== 'float32') throw new Error(`step graph observed nothing of "${name}"`)
        const known = maxima.get(name)
        maxima.set(name, known === undefined ? tensor.data : known.map((x, k) => Math.max(x, tensor.data[k] as number)))
      }
    }
  } finally {
    await session.release()
  }
  return maxima
}

/** Size of the products that are compared: rows of a small batch, and a layer's usual shape. */
const PROBE = { rows: 16, inner: 576, columns: 1536 } as const
const PROBE_RUNS = 12

/** Whether integer products are exact and faster here than block-quantized ones. */
export async function hasFastIntegerProducts(runtime: Runtime, threads: number | null): Promise<boolean> {
  const integer = await loadIntegerProbe(runtime, PROBE, threads)
  const blocks = await blocksSession(runtime, threads)
  try {
    const { rows, inner } = PROBE
    const floats = { x: float32Tensor(new Float32Array(rows * inner).fill(1), [rows, inner]) }
    const isExact = await integer.isExact()
    const isFaster = (await fastest(integer.session, integer.feeds)) < (await fastest(blocks, floats))
    return isExact && isFaster
  } finally {
    await integer.session.release()
    await blocks.release()
  }
}

/** The same product over weights that are quantized in blocks. */
async function blocksSession(runtime: Runtime, threads: number | null): Promise<Session> {
  const { rows, inner, columns } = PROBE
  const g = new GraphBuilder('blocks')
  const x = g.input('x', 'float32', [rows, inner])
  const blocks = inner / 32
  const weight = new Uint8Array(columns * inner).fill(200)
  const inputs = [
    x,
    g.constant({ dtype: 'uint8', shape: [columns, blocks, 32], data: weight }),
    g.constant(float32Tensor(new Float32Array(columns * blocks).fill(1), [columns * blocks])),
  ]
  const attributes = { K: int(inner), N: int(columns), bits: int(8), block_size: int(32), accuracy_level: int(4) }
  const [y] = g.node('MatMulNBits', inputs, attributes)
  if (y !== undefined) g.output(y, 'y')
  const bytes = toOnnxModel(g.build(), 'probe.onnx')
  return await runtime.loadSession({ bytes, directory: '.' }, threads === null ? {} : { threads })
}

async function fastest(session: Session, feeds: Parameters<Session['run']>[0]): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  for (let i = 0; i < PROBE_RUNS; i++) {
    const startedMs = performance.now()
    await session.run(feeds)
    best = Math.min(best, performance.now() - startedMs)
  }
  return best
}
