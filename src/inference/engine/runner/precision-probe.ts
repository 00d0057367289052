/**
 * How much faster int8 products are than float32 ones on this machine, in the shapes of one model.
 *
 * Both sides are the linear layers of a few blocks, so many that float32 weights do not fit the processor's caches where the
 * model's own would not, with nothing between them. They are run in turns and the fastest run of each counts: a busy machine
 * makes runs slower, never faster.
 */
import { inputSizeOf, JOINED_PROJECTIONS, outputSizeOf } from '#inference/engine/runner/adapter-layout.js'
import type { JoinedProjection } from '#model/architectures/decoder.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { integerLinear } from '#model/architectures/integer/integer-linear.js'
import { QUANTIZATION_BLOCK } from '#model/architectures/prepared-tensors.js'
import { int } from '#numerics/graph/attributes.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Value } from '#numerics/graph/graph.js'
import { add } from '#numerics/graph/ops/elementwise.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import type { Runtime, Session } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'

/** What int8 stands for on this machine. */
export type Int8Kind = 'integer' | 'blocks'

/** Float32 weights of the probe: more than most processors' caches. */
const PROBE_BYTES = 96 * 2 ** 20
/** Sequences of a step: one stream, and a small batch. */
const ROWS = [1, 8] as const
const ROUNDS = 8

/** Float32's time over int8's, the geometric mean of one row and eight. */
export async function measurePrecisions(
  config: DecoderConfig,
  options: { readonly runtime: Runtime; readonly threads: number | null; readonly int8Kind: Int8Kind },
): Promise<number> {
  const { runtime, threads, int8Kind } = options
  const layerSize = JOINED_PROJECTIONS.reduce(
    (sum, site) => sum + inputSizeOf(config, site) * outputSizeOf(config, site),
    0,
  )
  const layers = Math.ceil(PROBE_BYTES / Float32Array.BYTES_PER_ELEMENT / layerSize)
  const count = Math.max(1, Math.min(layers, config.layerCount))
  const load = async (kind: Int8Kind | 'f32'): Promise<Session> => {
    const bytes = toOnnxModel(probeGraph(config, { kind, layers: count }), 'probe.onnx')
    return await runtime.loadSession({ bytes, directory: '.' }, threads === null ? {} : { threads })
  }
  const float32 = await load('f32')
  const int8 = await load(int8Kind)
  try {
    let product = 1
    for (const rows of ROWS) product *= await ratio(float32, int8, probeFeeds(config, rows))
    return product ** (1 / ROWS.length)
  } finally {
    await float32.release()
    await int8.release()
  }
}

async function ratio(first: Session, second: Session, feeds: Record<string, HostTensor>): Promise<number> {
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, session] of [first, second].entries()) {
      const given = Object.fromEntries(session.inputNames.map((name) => [name, feeds[name] as HostTensor]))
      const startedMs = performance.now()
      await session.run(given)
      best[index] = Math.min(best[index] ?? 0, performance.now() - startedMs)
    }
  }
  return (best[0] ?? 1) / (best[1] ?? 1)
}

function probeFeeds(config: DecoderConfig, rows: number): Record<string, HostTensor> {
  const feeds: Record<string, HostTensor> = {
    zero_points: { dtype: 'uint8', shape: [rows], data: new Uint8Array(rows).fill(128) },
  }
  for (const site of JOINED_PROJECTIONS) {
    const size = inputSizeOf(config, site)
    feeds[site] = float32Tensor(
      Float32Array.from({ length: rows * size }, (_, i) => (i % 13) - 6),
      [rows, size],
    )
  }
  return feeds
}

/** All linear layers of some blocks, each on an input of its own; the sum keeps the output small. */
function probeGraph(
  config: DecoderConfig,
  { kind, layers }: { readonly kind: Int8Kind | 'f32'; readonly layers: number },
): Graph {
  const g = new GraphBuilder(`precision-${kind}`)
  const zeroPoints = kind === 'integer' ? g.input('zero_points', 'uint8', ['N']) : null
  const sums: Value[] = []
  const inputs = new Map(
    JOINED_PROJECTIONS.map((site) => [site, g.input(site, 'float32', ['N', inputSizeOf(config, site)])]),
  )
  for (let layer = 0; layer < layers; layer++) {
    for (const site of JOINED_PROJECTIONS) {
      const x = inputs.get(site) as Value
      const y = probeProduct(g, x, { config, site, kind, zeroPoints })
      sums.push(g.node('ReduceSum', [y, g.int64s([0, 1])], { keepdims: int(0) })[0] as Value)
    }
  }
  g.output(
    sums.reduce((sum, value) => add(g, sum, value)),
    'sum',
  )
  return g.build()
}

function probeProduct(
  g: GraphBuilder,
  x: Value,
  options: {
    readonly config: DecoderConfig
    readonly site: JoinedProjection
    readonly kind: Int8Kind | 'f32'
    readonly zeroPoints: Value | null
  },
): Value {
  const { config, site, kind, zeroPoints } = options
  const [K, N] = [inputSizeOf(config, site), outputSizeOf(config, site)]
  const ones = (length: number): Value => g.constant(float32Tensor(new Float32Array(length).fill(1), [length]))
  if (kind === 'f32') {
    const weight = g.constant(float32Tensor(new Float32Array(K * N).fill(0.5), [N, K]))
    return g.node('Gemm', [x, weight], { transB: int(1) })[0] as Value
  }
  if (kind === 'blocks' || zeroPoints === null) {
    const blocks = Math.ceil(K / QUANTIZATION_BLOCK)
    const data = new Uint8Array(N * blocks * QUANTIZATION_BLOCK).fill(130)
    const weight = g.constant({ dtype: 'uint8', shape: [N, blocks, QUANTIZATION_BLOCK], data })
    const attributes = {
      K: int(K),
      N: int(N),
      bits: int(8),
      block_size: int(QUANTIZATION_BLOCK),
      accuracy_level: int(4),
    }
    return g.node('MatMulNBits', [x, weight, ones(N * blocks)], attributes)[0] as Value
  }
  const quantized = g.constant({ dtype: 'int8', shape: [K, N], data: new Int8Array(K * N).fill(1) })
  const terms = site === 'down' || site === 'qkv' ? 2 : 1
  return integerLinear(g, x, { quantized, scales: ones(N), inverseSmoothing: ones(K), terms }, zeroPoints)
}
