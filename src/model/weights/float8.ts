/**
 * Weights of eight bits (`F8_E4M3` of safetensors) and the scales that folders keep beside them, widened to float32.
 *
 * Each weight is its byte's value times a scale, in float32: one scale for the tensor, one a row (`weight_scale`), or one a block of rows
 * and columns (`weight_scale_inv` of DeepSeek's and Qwen's folders, which multiplies whatever its name says), or none.
 * Deviation from how such folders are served elsewhere: activations are not rounded to eight bits.
 * Source: Micikevicius et al. 2022, "FP8 Formats for Deep Learning", section 3 (E4M3: no infinities, bias 7).
 */
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'

/** Rows and columns of one scale, where the configuration does not say it. */
const DEFAULT_BLOCK = [128, 128] as const
const VALUES = Float32Array.from({ length: 256 }, (_, byte) => numberOf(byte))

/** What a tensor's name has behind `.weight` where its scale is stored, in the order they are looked for. */
const SCALE_ENDINGS = ['_scale_inv', '_scale'] as const
/** Tensors beside such weights: their own scales, and those of activations, which nothing here rounds. */
const BESIDE = /\.(?:weight_scale_inv|weight_scale|input_scale|activation_scale)$/

/** The scales of one tensor, row-major. */
export interface Float8Scale {
  readonly values: Float32Array
  /** Rows and columns that one of them is for. */
  readonly block: readonly [number, number]
  /** Scales next to each other in one row of them. */
  readonly width: number
  /** Columns of the weights. */
  readonly columns: number
}

/** Widens E4M3 bytes to float32. Exact; the two NaN stay NaN. */
export function float8ToFloat32(bytes: Uint8Array): Float32Array {
  return Float32Array.from(bytes, (byte) => VALUES[byte] as number)
}

/** Multiplies weights by their scales, in place. @param start where in the tensor the values begin */
export function applyScale(values: Float32Array, scale: Float8Scale, start = 0): Float32Array {
  const { block, width, columns } = scale
  for (let i = 0; i < values.length; i++) {
    const row = Math.floor((start + i) / columns)
    const column = start + i - row * columns
    const at = Math.floor(row / block[0]) * width + Math.floor(column / block[1])
    values[i] = (values[i] as number) * (scale.values[at] as number)
  }
  return values
}

/** Name of the tensor that scales another; undefined where there is none. */
export function scaleNameOf(name: string, has: (name: string) => boolean): string | undefined {
  return SCALE_ENDINGS.map((ending) => `${name}${ending}`).find(has)
}

/** Whether a tensor stands beside a weight of eight bits and is none of the model's own. */
export function isBesideFloat8(name: string, isFloat8: (name: string) => boolean): boolean {
  return BESIDE.test(name) && isFloat8(name.replace(BESIDE, '.weight'))
}

/**
 * How scales lie over a weight.
 *
 * @param weight its name and shape [rows, columns]
 * @param stored shape and values of the scales
 * @throws {WeightsError} `invalid_scale` for a shape that fits neither the tensor nor its rows nor its blocks
 */
export function layScale(
  weight: { readonly name: string; readonly shape: readonly number[] },
  stored: { readonly shape: readonly number[]; readonly values: Float32Array },
  config: JsonObject,
): Float8Scale {
  const { values } = stored
  const columns = weight.shape.at(-1) ?? 1
  const rows = weight.shape.reduce((product, size) => product * size, 1) / Math.max(1, columns)
  if (values.length === 1) return { values, block: [rows, columns], width: 1, columns }
  const isByRow = values.length === rows && (stored.shape.length === 1 || stored.shape.at(-1) === 1)
  if (isByRow) return { values, block: [1, columns], width: 1, columns }
  const block = blockOf(config)
  const expected = [Math.ceil(rows / block[0]), Math.ceil(columns / block[1])] as const
  if (stored.shape.length === 2 && stored.shape[0] === expected[0] && stored.shape[1] === expected[1]) {
    return { values, block, width: expected[1], columns }
  }
  throw new WeightsError(
    'invalid_scale',
    `tensor "${weight.name}" [${weight.shape.join(', ')}] has scales [${stored.shape.join(', ')}], expected 1, [${rows}, 1] or [${expected.join(', ')}] for blocks of ${block.join(' x ')}`,
  )
}

/** Whether a configuration's `quantization_config` describes weights of eight bits that are read here. */
export function describesFloat8(quantization: unknown): boolean {
  if (!isJsonObject(quantization)) return false
  const { quant_method: method, format } = quantization
  return (
    method === 'fp8' || method === 'fbgemm_fp8' || (method === 'compressed-tensors' && format === 'float-quantized')
  )
}

function blockOf(config: JsonObject): readonly [number, number] {
  const quantization = config['quantization_config']
  const given = isJsonObject(quantization) ? quantization['weight_block_size'] : null
  const [rows, columns] = Array.isArray(given) ? given : DEFAULT_BLOCK
  const isSize = (size: unknown): size is number => Number.isInteger(size) && Number(size) > 0
  return isSize(rows) && isSize(columns) ? [rows, columns] : DEFAULT_BLOCK
}

function numberOf(byte: number): number {
  const sign = byte & 0x80 ? -1 : 1
  const [exponent, mantissa] = [(byte >> 3) & 15, byte & 7]
  if (exponent === 15 && mantissa === 7) return Number.NaN
  return sign * (exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10))
}
