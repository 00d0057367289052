import { expect, test } from 'vitest'
import { dequantizeGguf } from '#model/weights/gguf/dequantize.js'
import { bfloat16ToFloat32, float16ToFloat32 } from '#numerics/tensor/half.js'
import { storedBytes, toStoredBytes } from '#plugins/export/float-bytes.js'
import { expectCode } from '../../../support/expect-code.js'

const VALUES = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i) * (i < 32 ? 1 : 100))

test('f32 and the 16-bit floats round once to nearest', () => {
  const words = (bytes: Uint8Array): Uint16Array => new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2)
  expect(new Float32Array(toStoredBytes(VALUES, 'f32', 'w').slice().buffer)).toEqual(VALUES)
  const halves = float16ToFloat32(words(toStoredBytes(VALUES, 'f16', 'w')))
  const brains = bfloat16ToFloat32(words(toStoredBytes(VALUES, 'bf16', 'w')))
  for (const [i, value] of VALUES.entries()) {
    expect(Math.abs((halves[i] ?? 0) - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -11)
    expect(Math.abs((brains[i] ?? 0) - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -8)
  }
})

test('q8_0 blocks are within half a step of the block, and the largest value is kept', () => {
  const bytes = toStoredBytes(VALUES, 'q8_0', 'w')
  expect(bytes.length).toBe(storedBytes('q8_0', 64))
  const read = dequantizeGguf('Q8_0', bytes, 64)
  for (const [block, largest] of [1, 100].entries()) {
    for (let i = block * 32; i < block * 32 + 32; i++) {
      // half a step, and what binary16 takes from the step itself
      expect(Math.abs((read[i] ?? 0) - (VALUES[i] ?? 0))).toBeLessThanOrEqual(largest * (0.5 / 127 + 2 ** -11))
    }
  }
})

test('q8_0 of zeros and of values between two steps: halves go away from zero, as in C', () => {
  expect([...toStoredBytes(new Float32Array(32), 'q8_0', 'w')]).toEqual(new Array(34).fill(0))
  const values = new Float32Array(32)
  values.set([127, 0.5, -0.5, 1.5, -1.5, 2.4])
  const signed = new Int8Array(toStoredBytes(values, 'q8_0', 'w').buffer, 2)
  expect([...signed.subarray(0, 6)]).toEqual([127, 1, -1, 2, -2, 2])
})

test('a value that float16 cannot hold is refused with the tensor', async () => {
  const write = (): Uint8Array => toStoredBytes(Float32Array.of(1e6), 'f16', 'model.norm.weight')
  await expectCode(write, 'value_out_of_range', 'model.norm.weight')
})
