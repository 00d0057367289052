/**
 * The decoder inside a row graph: token rows in, normed hidden states out, weights frozen with adapters or all trainable.
 */
import { buildDecoder } from '#model/architectures/decoder.js'
import {
  type DecoderConfig,
  hasSlidingLayers,
  PROJECTIONS,
  projectionPath,
  projectionShape,
} from '#model/architectures/decoder-config.js'
import type { PreparedTensor } from '#model/architectures/tensor-file.js'
import { createTrainKernels, type RowWeights } from '#model/architectures/train-kernels.js'
import { type AdapterForm, isAdapted, rankOf, scaleOf } from '#model/weights/adapter-config.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { type AttentionMask, HIDDEN } from '#numerics/graph/ops/attention.js'
import { cast, less, sub, where } from '#numerics/graph/ops/elementwise.js'
import { reshape, split } from '#numerics/graph/ops/shape.js'
import type { LoraPair } from '#numerics/nn/lora.js'

/** The model a row graph computes. */
export interface RowModel {
  readonly config: DecoderConfig
  /** Float32 tensors by canonical name. */
  readonly tensors: ReadonlyMap<string, PreparedTensor>
  /** The frozen layers as integers by canonical name (`prepareTrainingIntegers`); absent where products are float32. */
  readonly integers?: ReadonlyMap<string, PreparedTensor> | undefined
  /** Form of the adapter; null for a graph of the base model alone. */
  readonly adapter: AdapterForm | null
  /** Share of the adapter's inputs that a train graph leaves out; absent: none. See `masks/dropout.ts`. */
  readonly dropout?: number | undefined
  /** Whether attention goes in blocks of queries with the keys listed for them; absent: whole rows, by a dense bias. */
  readonly isAttentionBlocked?: boolean | undefined
  /** Whether tokens may have been drawn from a part of the vocabulary (`kept_ids`); absent: from all of it. */
  readonly hasKeptSets?: boolean | undefined
}

/** Names of adapter tensors in graphs, checkpoints and optimizer states: PEFT's without its prefix. */
export function adapterTensorNames(modulePath: string): { readonly a: string; readonly b: string } {
  return { a: `${modulePath}.lora_A.weight`, b: `${modulePath}.lora_B.weight` }
}

/** What the head and the backward pass need of an emitted decoder. */
export interface EmittedDecoder {
  /** [B*T, E] */
  readonly hidden: Value
  /** The tokens' rows of the embedding, [B*T, E]. */
  readonly embedded: Value
  /** [V, E] */
  readonly headWeight: Value
  /** Adapter tensors by name; empty where there is no adapter. */
  readonly adapter: ReadonlyMap<string, Value>
}

/** Emits a frozen base model, its weights mapped from the prepared files, with the adapter as graph inputs. */
export function emitDecoder(g: GraphBuilder, model: RowModel): EmittedDecoder {
  const { config, tensors } = model
  const known = new Map<string, Value>()
  const mapped = (name: string, tensor: PreparedTensor): Value => {
    const { dtype, shape, file, offsetBytes, sizeBytes } = tensor
    const value = known.get(name) ?? g.external(name, dtype, shape, { file, offsetBytes, sizeBytes })
    known.set(name, value)
    return value
  }
  const base = (name: string): Value => mapped(name, tensorOf(tensors, name))
  const half = (name: string, which: 0 | 1): Value => mapped(`${name}.${which}`, halfOf(tensorOf(tensors, name), which))
  const { values, pairs } = adapterInputs(g, model)
  const integers = integersOf(model, mapped)
  const weights = {
    base,
    half,
    integers,
    adapter: (modulePath: string) => pairs.get(modulePath),
    dropout: model.dropout,
  }
  const hidden = emitHidden(g, config, weights, model.isAttentionBlocked)
  return { ...hidden, headWeight: base(headName(config)), adapter: values }
}

/**
 * Emits a decoder whose weights are given values.
 *
 * @param weight a float32 tensor by its canonical name; the same value at every call
 */
export function emitBareDecoder(
  g: GraphBuilder,
  config: DecoderConfig,
  weight: (name: string) => Value,
): Omit<EmittedDecoder, 'adapter'> {
  const halves = new Map<string, readonly Value[]>()
  const half = (name: string, which: 0 | 1): Value => {
    const whole = weight(name)
    const rows = Number(whole.shape[0]) / 2
    const both = halves.get(name) ?? split(g, whole, [rows, rows], 0)
    halves.set(name, both)
    return both[which] as Value
  }
  const hidden = emitHidden(g, config, { base: weight, half, adapter: () => undefined })
  return { ...hidden, headWeight: weight(headName(config)) }
}

function headName(config: DecoderConfig): string {
  return config.isEmbeddingTied ? 'embedding' : 'head'
}

function emitHidden(
  g: GraphBuilder,
  config: DecoderConfig,
  weights: RowWeights,
  isBlocked = false,
): Pick<EmittedDecoder, 'hidden' | 'embedded'> {
  const half = config.headSize / 2
  const tokens = g.input('tokens', 'int64', ['B', 'T'])
  const positions = g.input('positions', 'int64', ['B', 'T'])
  const inputs = {
    tokens,
    // In blocks all rows are one sequence, whose segments differ.
    positions: isBlocked ? reshape(g, positions, [1, 'B*T']) : positions,
    mask: isBlocked ? blockedMask(g) : denseMask(g),
    cos: g.input('cos', 'float32', ['P', half]),
    sin: g.input('sin', 'float32', ['P', half]),
  }
  const sliding = hasSlidingLayers(config) ? { sliding: slidingInputs(g, config, inputs) } : {}
  const kernels = createTrainKernels(g, config, { inputs: { ...inputs, ...sliding }, weights })
  const embedded = kernels.embed()
  return { hidden: buildDecoder(config, { ...kernels, embed: () => embedded }), embedded }
}

function denseMask(g: GraphBuilder): AttentionMask {
  return { kind: 'whole', bias: g.input('bias', 'float32', ['B', 'T', 'T']) }
}

function blockedMask(g: GraphBuilder): AttentionMask {
  return {
    kind: 'blocked',
    starts: g.input('block_starts', 'int64', ['Blocks']),
    halfRows: g.input('block_half_rows', 'int64', ['HalfRows']),
    keyIndices: g.input('key_indices', 'int64', ['Listed']),
    keyBounds: g.input('key_bounds', 'int64', ['Bounds']),
    keyPlaces: g.input('key_places', 'int64', ['Blocks', 'B*T']),
    hidden: g.input('block_hidden', 'uint8', ['Pairs']),
    hiddenBounds: g.input('block_hidden_bounds', 'int64', ['Bounds']),
  }
}

/** Integer weights as graph values, by name. */
function integersOf(
  { integers }: RowModel,
  mapped: (name: string, tensor: PreparedTensor) => Value,
): RowWeights['integers'] {
  if (integers === undefined) return undefined
  return (name) => {
    const part = (suffix: string): Value => mapped(`${name}.${suffix}`, tensorOf(integers, `${name}.${suffix}`))
    return {
      quantized: part('integer'),
      transposed: part('integer_transposed'),
      scales: part('output_scales'),
    }
  }
}

/** What a sliding layer sees: of what the others see, the last positions of the same sequence. */
function slidingInputs(
  g: GraphBuilder,
  config: DecoderConfig,
  inputs: { readonly positions: Value; readonly mask: AttentionMask; readonly cos: Value; readonly sin: Value },
): { readonly mask: AttentionMask; readonly cos: Value; readonly sin: Value } {
  const { slidingWindow, slidingRotary, headSize } = config
  if (slidingWindow === undefined) throw new Error('a decoder with sliding layers has a window')
  const rotary = (name: string): Value => g.input(name, 'float32', ['P', headSize / 2])
  const tables =
    slidingRotary === undefined
      ? { cos: inputs.cos, sin: inputs.sin }
      : { cos: rotary('sliding_cos'), sin: rotary('sliding_sin') }
  const { mask } = inputs
  return g.scope('sliding', () => {
    if (mask.kind === 'blocked') {
      return { ...tables, mask: { ...mask, hidden: g.input('block_hidden_sliding', 'uint8', ['Pairs']) } }
    }
    const [b = 'B', t = 'T'] = inputs.positions.shape
    const positions = cast(g, inputs.positions, 'float32')
    const distance = sub(g, reshape(g, positions, [b, t, 1]), reshape(g, positions, [b, 1, t]))
    const isNear = less(g, distance, g.scalar(slidingWindow))
    return { ...tables, mask: { kind: 'whole', bias: where(g, isNear, mask.bias, g.scalar(HIDDEN)) } }
  })
}

function tensorOf(tensors: RowModel['tensors'], name: string): PreparedTensor {
  const tensor = tensors.get(name)
  if (tensor === undefined) throw new Error(`the prepared model has no tensor "${name}"`)
  return tensor
}

/** The first or second half of a tensor's rows, where they lie. */
function halfOf(tensor: PreparedTensor, which: 0 | 1): PreparedTensor {
  const [rows = 0, ...inner] = tensor.shape
  const sizeBytes = tensor.sizeBytes / 2
  return { ...tensor, shape: [rows / 2, ...inner], sizeBytes, offsetBytes: tensor.offsetBytes + which * sizeBytes }
}

function adapterInputs(
  g: GraphBuilder,
  { config, adapter }: RowModel,
): { readonly values: ReadonlyMap<string, Value>; readonly pairs: ReadonlyMap<string, LoraPair> } {
  const values = new Map<string, Value>()
  const pairs = new Map<string, LoraPair>()
  if (adapter === null) return { values, pairs }
  for (let layer = 0; layer < config.layerCount; layer++) {
    for (const projection of PROJECTIONS) {
      const path = projectionPath(layer, projection)
      if (!isAdapted(adapter, path)) continue
      const names = adapterTensorNames(path)
      const rank = rankOf(adapter, path)
      const [outputs, inputs] = projectionShape(config, projection)
      const a = g.input(names.a, 'float32', [rank, inputs])
      const b = g.input(names.b, 'float32', [outputs, rank])
      values.set(names.a, a).set(names.b, b)
      pairs.set(path, { a, b, scale: scaleOf(adapter, path) })
    }
  }
  return { values, pairs }
}
