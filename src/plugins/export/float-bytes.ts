/**
 * Float32 values as the bytes that weight files hold: floats of three widths, and GGUF's blocks of 8 bits.
 *
 * Q8_0 as in llama.cpp's `quantize_row_q8_0_ref` (`ggml-quants.c`): blocks of 32, d = max / 127 kept as binary16, q = round(x /
 * d).
 */
import { WeightsError } from '#base/errors/errors.js'
import { float32ToBfloat16, float32ToFloat16, numberToHalf } from '#numerics/tensor/half.js'

/** How an exported tensor is stored. */
export type FloatStorage = 'f32' | 'f16' | 'bf16' | 'q8_0'

const BLOCK = 32
const BLOCK_BYTES = 34
/** Largest finite binary16. */
const LARGEST_HALF = 65_504

/** Bytes that `length` values take. */
export function storedBytes(storage: FloatStorage, length: number): number {
  if (storage === 'q8_0') return (length / BLOCK) * BLOCK_BYTES
  return length * (storage === 'f32' ? 4 : 2)
}

/**
 * @param name of the tensor, for messages
 * @throws {WeightsError} `value_out_of_range` where binary16 cannot hold a value
 */
export function toStoredBytes(values: Float32Array, storage: FloatStorage, name: string): Uint8Array {
  switch (storage) {
    case 'f32':
      return bytesOf(values)
    case 'bf16':
      return bytesOf(float32ToBfloat16(values))
    case 'f16':
      assertHalves(values, name)
      return bytesOf(float32ToFloat16(values))
    case 'q8_0':
      return quantizeQ8_0(values)
  }
}

function quantizeQ8_0(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(storedBytes('q8_0', values.length))
  const signed = new Int8Array(bytes.buffer)
  for (let from = 0, to = 0; from < values.length; from += BLOCK, to += BLOCK_BYTES) {
    let largest = 0
    for (let i = 0; i < BLOCK; i++) largest = Math.max(largest, Math.abs(values[from + i] as number))
    const scale = Math.fround(largest / 127)
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale)
    const half = numberToHalf(scale)
    bytes[to] = half & 0xff
    bytes[to + 1] = half >>> 8
    for (let i = 0; i < BLOCK; i++) {
      const x = Math.fround((values[from + i] as number) * inverse)
      // C's roundf: halves go away from zero
      signed[to + 2 + i] = Math.sign(x) * Math.floor(Math.abs(x) + 0.5)
    }
  }
  return bytes
}

function assertHalves(values: Float32Array, name: string): void {
  for (const value of values) {
    if (Math.abs(value) > LARGEST_HALF) {
      throw new WeightsError('value_out_of_range', `tensor "${name}" has ${value}, which float16 cannot hold`, {
        hint: 'export with precision f32 or bf16',
      })
    }
  }
}

function bytesOf(values: Float32Array | Uint16Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
}
