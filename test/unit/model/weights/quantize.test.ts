/**
 * Block quantization: layout, error bounds and edge values. Agreement with the operator is in the integration test.
 */
import { expect, test } from 'vitest'
import { createRng } from '../../../../src/base/util/rng.js'
import { dequantizeNBits, quantizeNBits } from '../../../../src/model/weights/quantize.js'
import { expectCode } from '../../../support/expect-code.js'

function normal(length: number, seed = 1): Float32Array {
  const rng = createRng(seed)
  return Float32Array.from({ length }, () => rng.normal())
}

/** Root mean square error relative to the weights' own. */
function relativeError(weight: Float32Array, rows: number, bits: 8 | 4, blockSize = 32): number {
  const columns = weight.length / rows
  const matrix = quantizeNBits(weight, rows, columns, bits, blockSize)
  const back = dequantizeNBits(matrix, { rows, columns, bits, blockSize })
  let error = 0
  let size = 0
  for (let i = 0; i < weight.length; i++) {
    error += (back[i] - weight[i]) ** 2
    size += weight[i] ** 2
  }
  return Math.sqrt(error / size)
}

test('8-bit codes: the value of largest magnitude is code 0, zero is code 128', () => {
  const weight = new Float32Array(32)
  weight.set([2, -1, 1, 0])
  const { quantized, scales } = quantizeNBits(weight, 1, 32, 8, 32)
  expect([...scales]).toEqual([2 / -128])
  expect([...quantized.subarray(0, 5)]).toEqual([0, 192, 64, 128, 128])
})

test('4-bit codes: the even column is in the low nibble', () => {
  // Two values only, so the least-squares scale is exact: -8 and 4 with scale 1.
  const weight = new Float32Array(32)
  weight.set([-8, 4])
  const { quantized, scales } = quantizeNBits(weight, 1, 32, 4, 32)
  expect([...scales]).toEqual([1])
  expect([...quantized.subarray(0, 3)]).toEqual([(12 << 4) | 0, 0x88, 0x88])
})

test('a last block that is short is padded with the zero point', () => {
  const { quantized, scales } = quantizeNBits(normal(2 * 40), 2, 40, 8, 32)
  expect(quantized.length).toBe(2 * 2 * 32)
  expect(scales.length).toBe(4)
  expect([...quantized.subarray(32 + 8, 64)]).toEqual(new Array(24).fill(128))
  const four = quantizeNBits(normal(2 * 40), 2, 40, 4, 32)
  expect(four.quantized.length).toBe(2 * 2 * 16)
  expect([...four.quantized.subarray(16 + 4, 32)]).toEqual(new Array(12).fill(0x88))
})

test.each([8, 4] as const)('%i bits: zeros stay zeros', (bits) => {
  const { quantized, scales } = quantizeNBits(new Float32Array(64), 2, 32, bits, 32)
  expect([...scales]).toEqual([0, 0])
  expect(new Set(quantized)).toEqual(new Set([bits === 8 ? 128 : 0x88]))
})

test.each([8, 4] as const)('%i bits: the extremes of float32 stay finite and in their block', (bits) => {
  const weight = new Float32Array(128)
  weight.set([3.4e38, -3.4e38, 1e-45], 0)
  weight.set([1e-45, -3e-43, 2e-43], 32)
  weight.set([1, -1], 64)
  const matrix = quantizeNBits(weight, 1, 128, bits, 32)
  const back = dequantizeNBits(matrix, { rows: 1, columns: 128, bits, blockSize: 32 })
  expect(back.every((value) => Number.isFinite(value))).toBe(true)
  expect([...back.subarray(96)]).toEqual(new Array(32).fill(0))
  expect(Math.abs(back[0] / 3.4e38 - 1)).toBeLessThan(0.15)
  expect(Math.abs(back[64] - 1)).toBeLessThan(0.15)
})

test('normal weights lose less than 0.6 % at 8 bits and less than 9 % at 4 bits', () => {
  const weight = normal(64 * 256)
  expect(relativeError(weight, 64, 8)).toBeLessThan(0.006)
  expect(relativeError(weight, 64, 4)).toBeLessThan(0.09)
})

test('the search for a 4-bit scale beats the plain rule', () => {
  const weight = normal(64 * 256, 2)
  let plain = 0
  let size = 0
  for (let start = 0; start < weight.length; start += 32) {
    const block = weight.subarray(start, start + 32)
    const extreme = block.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0)
    const scale = extreme / -8
    for (const value of block) {
      const code = Math.min(Math.max(Math.round(value / scale), -8), 7)
      plain += (code * scale - value) ** 2
      size += value ** 2
    }
  }
  expect(relativeError(weight, 64, 4)).toBeLessThan(0.97 * Math.sqrt(plain / size))
})

test.each([16, 64, 128])('block size %i is laid out by its own rule', (blockSize) => {
  const { quantized, scales } = quantizeNBits(normal(3 * 256), 3, 256, 4, blockSize)
  expect([quantized.length, scales.length]).toEqual([(3 * 256) / 2, 3 * (256 / blockSize)])
  expect(relativeError(normal(3 * 256), 3, 8, blockSize)).toBeLessThan(0.01)
})

test('sizes that do not fit are refused', async () => {
  await expectCode(() => quantizeNBits(new Float32Array(31), 1, 32, 8, 32), 'size_mismatch', '31')
  await expectCode(() => quantizeNBits(new Float32Array(32), 1, 32, 8, 24), 'invalid_block_size', '24')
})
