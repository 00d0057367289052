/**
 * Block quantization of linear weights for serving, in the layout of ONNX Runtime's com.microsoft.MatMulNBits.
 *
 * Symmetric: value = (q - 2^(bits-1)) * scale, one float32 scale per block of a row, zero points left to the operator's
 * default. The value of largest magnitude maps to the lowest code, which uses all codes; scales may be negative.
 * For 4 bits the scale is then refined by a small search for the least squared error, after `make_qx_quants` of
 * llama.cpp's `ggml-quants.c`.
 * Source of the layout: "com.microsoft.MatMulNBits" in
 * https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
import { WeightsError } from '#base/errors/errors.js'

/** A quantized matrix. */
export interface QuantizedMatrix {
  /** [rows, ceil(columns / blockSize), blockSize * bits / 8]; of two 4-bit codes in a byte the low one comes first. */
  readonly quantized: Uint8Array
  /** [rows * ceil(columns / blockSize)] */
  readonly scales: Float32Array
}

/** Divisors tried for a 4-bit scale, as multiples of the block's extreme value; 8 maps it exactly to code 0. */
const FOUR_BIT_DIVISORS = [8, 7.4, 7.7, 8.4, 8.8]

/**
 * Quantizes a row-major matrix block by block.
 *
 * @param weight [rows, columns], finite
 * @param blockSize columns that share a scale; a power of two of at least 16
 * @throws {WeightsError} `size_mismatch` if `weight` is not rows*columns long; `invalid_block_size`
 */
export function quantizeNBits(
  weight: Float32Array,
  rows: number,
  columns: number,
  bits: 8 | 4,
  blockSize: number,
): QuantizedMatrix {
  if (weight.length !== rows * columns) {
    throw new WeightsError('size_mismatch', `matrix has ${weight.length} values, expected ${rows} x ${columns}`)
  }
  if (!Number.isInteger(Math.log2(blockSize)) || blockSize < 16) {
    throw new WeightsError('invalid_block_size', `block size is ${blockSize}, expected a power of two from 16`)
  }
  const blocks = Math.ceil(columns / blockSize)
  const blockBytes = (blockSize * bits) / 8
  const quantized = new Uint8Array(rows * blocks * blockBytes)
  const scales = new Float32Array(rows * blocks)
  const quantizeBlock = bits === 8 ? quantizeBlock8 : quantizeBlock4
  // A short last block is padded with zeros, which quantize to the zero point.
  const block = new Float32Array(blockSize)
  for (let row = 0; row < rows; row++) {
    for (let b = 0; b < blocks; b++) {
      const start = row * columns + b * blockSize
      const length = Math.min(blockSize, columns - b * blockSize)
      for (let i = 0; i < length; i++) block[i] = weight[start + i] as number
      if (length < blockSize) block.fill(0, length)
      const index = row * blocks + b
      scales[index] = quantizeBlock(block, quantized, index * blockBytes)
    }
  }
  return { quantized, scales }
}

/**
 * The matrix a quantized matrix stands for, [rows, columns].
 */
export function dequantizeNBits(
  { quantized, scales }: QuantizedMatrix,
  { rows, columns, bits, blockSize }: { rows: number; columns: number; bits: 8 | 4; blockSize: number },
): Float32Array {
  const blocks = Math.ceil(columns / blockSize)
  const zeroPoint = 2 ** (bits - 1)
  const out = new Float32Array(rows * columns)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const block = row * blocks + Math.floor(column / blockSize)
      const position = block * blockSize + (column % blockSize)
      const byte = quantized[bits === 8 ? position : position >> 1] as number
      const code = bits === 8 ? byte : (byte >> (4 * (position & 1))) & 15
      out[row * columns + column] = (code - zeroPoint) * (scales[block] as number)
    }
  }
  return out
}

/** Writes the codes of one block at `at` and returns its scale. */
function quantizeBlock8(block: Float32Array, out: Uint8Array, at: number): number {
  const scale = Math.fround(extremeOf(block) / -128)
  // Also when the extreme is too small for a scale; -0 would make zeros negative.
  if (scale === 0) {
    out.fill(128, at, at + block.length)
    return 0
  }
  const inverse = 1 / scale
  for (let i = 0; i < block.length; i++) {
    // Truncation after adding a half rounds to the nearest code; the clamps matter for the extreme of the other sign
    // and for scales so small that they lose digits.
    const code = ((block[i] as number) * inverse + 128.5) | 0
    out[at + i] = Math.min(Math.max(code, 0), 255)
  }
  return scale
}

function quantizeBlock4(block: Float32Array, out: Uint8Array, at: number): number {
  const extreme = extremeOf(block)
  if (extreme === 0) {
    out.fill(0x88, at, at + block.length / 2)
    return 0
  }
  const { inverse, scale } = searchScale4(block, extreme)
  for (let i = 0; i < block.length; i += 2) {
    const low = code4(block[i] as number, inverse)
    const high = code4(block[i + 1] as number, inverse)
    out[at + (i >> 1)] = low | (high << 4)
  }
  return scale
}

/** The rounding factor and the least-squares scale with the smallest squared error among `FOUR_BIT_DIVISORS`. */
function searchScale4(block: Float32Array, extreme: number): { inverse: number; scale: number } {
  let best = -1
  let bestInverse = 0
  let bestScale = 0
  for (const divisor of FOUR_BIT_DIVISORS) {
    const inverse = -divisor / extreme
    let xq = 0
    let qq = 0
    for (let i = 0; i < block.length; i++) {
      const x = block[i] as number
      const q = code4(x, inverse) - 8
      xq += x * q
      qq += q * q
    }
    // With scale xq/qq the squared error is sum(x^2) - xq^2/qq.
    if (xq * xq > best * qq) {
      best = (xq * xq) / qq
      bestInverse = inverse
      bestScale = xq / qq
    }
  }
  return { inverse: bestInverse, scale: Math.fround(bestScale) }
}

function code4(value: number, inverse: number): number {
  const code = (value * inverse + 8.5) | 0
  return Math.min(Math.max(code, 0), 15)
}

/** The value of largest magnitude, with its sign. */
function extremeOf(block: Float32Array): number {
  let extreme = 0
  let magnitude = 0
  for (let i = 0; i < block.length; i++) {
    const value = block[i] as number
    const size = value < 0 ? -value : value
    if (size > magnitude) {
      magnitude = size
      extreme = value
    }
  }
  return extreme
}
