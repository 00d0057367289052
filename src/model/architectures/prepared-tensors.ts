/**
 * Which tensors a prepared model consists of: joins projections that share an input, and quantizes for serving.
 *
 * Beside the joined `layers.N.qkv.weight` (rows q, k, v) there is `layers.N.qkv_grouped.weight` for the step graph: rows
 * by key/value head, each its query heads, its key head, its value head. Then one transpose serves all three, and q
 * with k is one contiguous range to rotate. `rotary_frequencies` (float64, [D/2]) has every scaling applied; where sliding
 * layers turn by others there is `sliding_rotary_frequencies`. Norm weights are what is multiplied with, offsets added.
 */
import { WeightsError } from '#base/errors/errors.js'
import { quantizeNBits } from '#model/weights/quantize.js'
import { quantizeOutputs, smoothingFactors } from '#model/weights/quantize-outputs.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import { rotaryFrequencies } from '#numerics/nn/rotary-embedding.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import {
  type DecoderConfig,
  layerNorms,
  PROJECTIONS,
  type Projection,
  projectionPath,
  projectionShape,
} from './decoder-config.js'
import { SLIDING_FREQUENCIES } from './rotary-frequencies.js'
import { type PreparedTensor, readTensor, type TensorFileWriter } from './tensor-file.js'

/** Input columns that share a scale in quantized weights. */
export const QUANTIZATION_BLOCK = 32

/** Writes the float32 tensors, all of them. */
export async function preparedFloat32(
  source: WeightSource,
  config: DecoderConfig,
  writer: TensorFileWriter,
): Promise<void> {
  const write = (name: string, data: Float32Array, shape: readonly number[]): Promise<void> =>
    writer.write(name, float32Tensor(data, shape))
  const { hiddenSize, vocabularySize, headSize } = config
  await write('embedding', await embeddingOf(source, config), [vocabularySize, hiddenSize])
  if (!config.isEmbeddingTied) await write('head', await headOf(source, config), [vocabularySize, hiddenSize])
  const normOf = async (name: string, size: number): Promise<Float32Array> => {
    const weight = await vector(source, `${name}.weight`, size)
    const { normOffset = 0 } = config
    return normOffset === 0 ? weight : weight.map((value) => value + normOffset)
  }
  await write('final_norm', await normOf('model.norm', hiddenSize), [hiddenSize])
  const frequencies = rotaryFrequenciesOf(source, config)
  await writer.write('rotary_frequencies', { dtype: 'float64', shape: [frequencies.length], data: frequencies })
  if (config.slidingRotary !== undefined) {
    const sliding = rotaryFrequencies(config.slidingRotary, headSize)
    await writer.write(SLIDING_FREQUENCIES, { dtype: 'float64', shape: [sliding.length], data: sliding })
  }
  for (let layer = 0; layer < config.layerCount; layer++) {
    const at = `layers.${layer}`
    const from = `model.layers.${layer}`
    for (const [name, hfName] of layerNorms(config)) {
      await write(`${at}.${name}`, await normOf(`${from}.${hfName}`, hiddenSize), [hiddenSize])
    }
    const qkv = await joined(source, config, { layer, projections: ['q_proj', 'k_proj', 'v_proj'] })
    await write(`${at}.qkv.weight`, qkv, [qkvRows(config), hiddenSize])
    await write(`${at}.qkv_grouped.weight`, groupRows(qkv, config, hiddenSize), [qkvRows(config), hiddenSize])
    const o = await joined(source, config, { layer, projections: ['o_proj'] })
    await write(`${at}.o.weight`, o, projectionShape(config, 'o_proj'))
    const gateUp = await joined(source, config, { layer, projections: ['gate_proj', 'up_proj'] })
    await write(`${at}.gate_up.weight`, gateUp, [2 * config.mlpSize, hiddenSize])
    const down = await joined(source, config, { layer, projections: ['down_proj'] })
    await write(`${at}.down.weight`, down, projectionShape(config, 'down_proj'))
    await writeBiases(source, config, { layer, write })
    if (!config.hasQkNorm) continue
    const qNorm = await normOf(`${from}.self_attn.q_norm`, headSize)
    const kNorm = await normOf(`${from}.self_attn.k_norm`, headSize)
    await write(`${at}.q_norm`, qNorm, [headSize])
    await write(`${at}.k_norm`, kNorm, [headSize])
    const queriesPerKey = config.headCount / config.kvHeadCount
    const grouped = concatenated([...Array.from({ length: queriesPerKey }, () => qNorm), kNorm])
    await write(`${at}.qk_norm_grouped`, grouped, [queriesPerKey + 1, headSize])
  }
}

/** Writes the quantized weights of the step graph; everything else is served from float32. */
export async function preparedQuantized(
  source: WeightSource,
  config: DecoderConfig,
  options: { readonly writer: TensorFileWriter; readonly bits: 8 | 4 },
): Promise<void> {
  const { writer, bits } = options
  const write = async (name: string, weight: Float32Array, rows: number): Promise<void> => {
    const columns = weight.length / rows
    const { quantized, scales } = quantizeNBits(weight, rows, columns, bits, QUANTIZATION_BLOCK)
    const blocks = Math.ceil(columns / QUANTIZATION_BLOCK)
    const shape = [rows, blocks, (QUANTIZATION_BLOCK * bits) / 8]
    await writer.write(`${name}.quantized`, { dtype: 'uint8', shape, data: quantized })
    await writer.write(`${name}.scales`, float32Tensor(scales, [rows * blocks]))
  }
  const head = config.isEmbeddingTied ? await embeddingOf(source, config) : await headOf(source, config)
  await write('head', head, config.vocabularySize)
  for (let layer = 0; layer < config.layerCount; layer++) {
    const at = `layers.${layer}`
    const qkv = await joined(source, config, { layer, projections: ['q_proj', 'k_proj', 'v_proj'] })
    await write(`${at}.qkv_grouped`, groupRows(qkv, config, config.hiddenSize), qkvRows(config))
    await write(`${at}.o`, await joined(source, config, { layer, projections: ['o_proj'] }), config.hiddenSize)
    const gateUp = await joined(source, config, { layer, projections: ['gate_proj', 'up_proj'] })
    await write(`${at}.gate_up`, gateUp, 2 * config.mlpSize)
    await write(`${at}.down`, await joined(source, config, { layer, projections: ['down_proj'] }), config.hiddenSize)
  }
}

/**
 * Writes the weights of integer products, made from prepared float32 ones.
 *
 * @param options.maxima largest magnitude of each input channel on ordinary text, by the layer's name
 */
export async function preparedInteger(
  tensors: ReadonlyMap<string, PreparedTensor>,
  options: {
    readonly config: DecoderConfig
    readonly maxima: ReadonlyMap<string, Float32Array>
    readonly writer: TensorFileWriter
  },
): Promise<void> {
  const { config, maxima, writer } = options
  for (const [name, inputMaxima] of maxima) {
    const stored = name === 'head' ? (config.isEmbeddingTied ? 'embedding' : 'head') : `${name}.weight`
    const tensor = tensors.get(stored)
    if (tensor === undefined) throw new Error(`prepared model has no tensor "${stored}"`)
    const weight = await readTensor(tensor)
    const rows = tensor.shape[0] ?? 0
    const smoothing = smoothingFactors(weight, rows, inputMaxima)
    const { quantized, scales } = quantizeOutputs(weight, rows, smoothing)
    const columns = smoothing.length
    await writer.write(`${name}.integer`, { dtype: 'int8', shape: [columns, rows], data: quantized })
    await writer.write(`${name}.output_scales`, float32Tensor(scales, [rows]))
    const inverse = smoothing.map((factor) => 1 / factor)
    await writer.write(`${name}.inverse_smoothing`, float32Tensor(inverse, [columns]))
  }
}

/** Rows of the joined q, k, v weight. */
export function qkvRows(config: DecoderConfig): number {
  return (config.headCount + 2 * config.kvHeadCount) * config.headSize
}

/** Where row `row` of the joined q, k, v matrix (rows q, k, v) lies in the grouped order. */
export function groupedRow(config: DecoderConfig, row: number): number {
  const { headCount, kvHeadCount, headSize } = config
  const queriesPerKey = headCount / kvHeadCount
  const head = Math.floor(row / headSize)
  const perGroup = queriesPerKey + 2
  let grouped: number
  if (head < headCount) grouped = Math.floor(head / queriesPerKey) * perGroup + (head % queriesPerKey)
  else if (head < headCount + kvHeadCount) grouped = (head - headCount) * perGroup + queriesPerKey
  else grouped = (head - headCount - kvHeadCount) * perGroup + queriesPerKey + 1
  return grouped * headSize + (row % headSize)
}

/**
 * Reorders the rows of a joined q, k, v matrix by key/value head: its query heads, its key, its value.
 *
 * @param rows [(H + 2K) * D, columns]
 */
export function groupRows(rows: Float32Array, config: DecoderConfig, columns: number): Float32Array {
  const out = new Float32Array(rows.length)
  for (let row = 0; row * columns < rows.length; row++) {
    out.set(rows.subarray(row * columns, (row + 1) * columns), groupedRow(config, row) * columns)
  }
  return out
}

type WriteFloat32 = (name: string, data: Float32Array, shape: readonly number[]) => Promise<void>

async function writeBiases(
  source: WeightSource,
  config: DecoderConfig,
  target: { readonly layer: number; readonly write: WriteFloat32 },
): Promise<void> {
  const { layer, write } = target
  const bias = async (projections: readonly Projection[]): Promise<Float32Array> => {
    const parts: Float32Array[] = []
    for (const projection of projections) {
      const [size] = projectionShape(config, projection)
      parts.push(await vector(source, `${projectionPath(layer, projection)}.bias`, size))
    }
    return concatenated(parts)
  }
  const at = `layers.${layer}`
  if (config.hasQkvBias) {
    const qkv = await bias(['q_proj', 'k_proj', 'v_proj'])
    await write(`${at}.qkv.bias`, qkv, [qkv.length])
    await write(`${at}.qkv_grouped.bias`, groupRows(qkv, config, 1), [qkv.length])
  }
  if (config.hasOutputBias) await write(`${at}.o.bias`, await bias(['o_proj']), [config.hiddenSize])
  if (config.hasMlpBias) {
    await write(`${at}.gate_up.bias`, await bias(['gate_proj', 'up_proj']), [2 * config.mlpSize])
    await write(`${at}.down.bias`, await bias(['down_proj']), [config.hiddenSize])
  }
}

/** Radians per position of each pair of a head, all scaling applied: [D/2]. */
function rotaryFrequenciesOf(source: WeightSource, config: DecoderConfig): Float64Array {
  const divisors = source.ropeFrequencyDivisors
  if (divisors === null) return rotaryFrequencies(config.rotary, config.headSize)
  // The divisors are Llama 3's scaling itself, which the configuration names as well: it is applied once.
  const unscaled = rotaryFrequencies({ ...config.rotary, llama3Scaling: null }, config.headSize)
  return unscaled.map((frequency, i) => frequency / (divisors[i] ?? 1))
}

async function joined(
  source: WeightSource,
  config: DecoderConfig,
  part: { readonly layer: number; readonly projections: readonly Projection[] },
): Promise<Float32Array> {
  const weights: Float32Array[] = []
  for (const projection of part.projections) {
    if (!PROJECTIONS.includes(projection)) throw new Error(`unknown projection ${projection}`)
    const name = `${projectionPath(part.layer, projection)}.weight`
    weights.push(await readChecked(source, name, projectionShape(config, projection)))
  }
  return weights.length === 1 ? (weights[0] as Float32Array) : concatenated(weights)
}

function embeddingOf(source: WeightSource, config: DecoderConfig): Promise<Float32Array> {
  return readChecked(source, 'model.embed_tokens.weight', [config.vocabularySize, config.hiddenSize])
}

function headOf(source: WeightSource, config: DecoderConfig): Promise<Float32Array> {
  return readChecked(source, 'lm_head.weight', [config.vocabularySize, config.hiddenSize])
}

function vector(source: WeightSource, name: string, size: number): Promise<Float32Array> {
  return readChecked(source, name, [size])
}

async function readChecked(source: WeightSource, name: string, shape: readonly number[]): Promise<Float32Array> {
  const actual = source.tensorShape(name)
  if (actual.length !== shape.length || actual.some((size, i) => size !== shape[i])) {
    const message = `tensor "${name}" must have shape [${shape.join(', ')}], got [${actual.join(', ')}]`
    throw new WeightsError('shape_mismatch', message)
  }
  return await source.readFloat32(name)
}

function concatenated(parts: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}
