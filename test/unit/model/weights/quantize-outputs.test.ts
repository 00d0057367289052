/**
 * Weights of integer products: each output by its own scale, channels smoothed before.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { quantizeOutputs, smoothingFactors } from '#model/weights/quantize-outputs.js'

const WEIGHT = Float32Array.of(1, -2, 0.5, 10, 30, -20) // [2, 3]

describe('quantizeOutputs', () => {
  it('transposes and stays within half a step of every weight', () => {
    const smoothing = Float32Array.of(1, 0.5, 2)
    const { quantized, scales } = quantizeOutputs(WEIGHT, 2, smoothing)
    for (let row = 0; row < 2; row++) {
      for (let k = 0; k < 3; k++) {
        const wanted = (WEIGHT[row * 3 + k] ?? 0) * (smoothing[k] ?? 0)
        const got = (quantized[k * 2 + row] ?? 0) * (scales[row] ?? 0)
        expect(Math.abs(got - wanted)).toBeLessThanOrEqual(0.5001 * (scales[row] ?? 0))
      }
    }
    expect(Math.max(...quantized.map(Math.abs))).toBe(127)
  })

  it.each([
    [1, 70],
    [64, 128],
    [131, 65],
  ])('is the same to the bit as one value after the other, %i outputs of %i', (rows, columns) => {
    const rng = createRng('tiles')
    const weight = Float32Array.from({ length: rows * columns }, () => rng.uniform() - 0.5)
    const smoothing = Float32Array.from({ length: columns }, () => rng.uniform() + 0.1)
    const { quantized, scales } = quantizeOutputs(weight, rows, smoothing)
    const expected = new Int8Array(rows * columns)
    for (let row = 0; row < rows; row++) {
      const values = Array.from(smoothing, (factor, k) => (weight[row * columns + k] ?? 0) * factor)
      const largest = Math.max(...values.map(Math.abs))
      expect(scales[row]).toBe(Math.fround(largest / 127))
      for (const [k, value] of values.entries()) expected[k * rows + row] = Math.round(value * (127 / largest))
    }
    expect(quantized).toEqual(expected)
  })

  it('keeps an output without weights at zero', () => {
    const { quantized, scales } = quantizeOutputs(new Float32Array(4), 2, Float32Array.of(1, 1))
    expect([...quantized, ...scales]).toEqual([0, 0, 0, 0, 0, 0])
  })

  it('refuses a matrix of another size', () => {
    expect(() => quantizeOutputs(WEIGHT, 3, Float32Array.of(1, 1, 1))).toThrow('6 values, not 3 x 3')
  })
})

describe('smoothingFactors', () => {
  it('makes inputs and weights of a channel equally wide', () => {
    const maxima = Float32Array.of(40, 0.3, 5)
    const factors = smoothingFactors(WEIGHT, 2, maxima)
    const weightMaxima = [10, 30, 20]
    factors.forEach((factor, k) => {
      expect((maxima[k] ?? 0) / factor).toBeCloseTo((weightMaxima[k] ?? 0) * factor, 4)
    })
  })

  it('leaves channels alone that were never seen or have no weights', () => {
    expect([...smoothingFactors(Float32Array.of(1, 0), 1, Float32Array.of(0, 3))]).toEqual([1, 1])
  })
})
