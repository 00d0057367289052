/**
 * When layers are recomputed.
 */
import { describe, expect, it } from 'vitest'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { activationBytes, needsRecomputation, planMemory, recomputedBytes } from '#training/trainer/memory.js'
import smollm2 from '../../../support/model/smollm2-135m.json' with { type: 'json' }

const smol = smollm2 as DecoderConfig

describe('needsRecomputation', () => {
  it('keeps the activations of four rows of 256 tokens of a 135M model, about 0.7 GB', () => {
    expect(activationBytes(smol, { rows: 4, length: 256 })).toBeGreaterThan(0.6e9)
    expect(activationBytes(smol, { rows: 4, length: 256 })).toBeLessThan(0.8e9)
    expect(needsRecomputation(smol, { rows: 4, length: 256 })).toBe(false)
  })

  it('keeps those of a row of 2,048 tokens, and recomputes one of 4,096', () => {
    expect(needsRecomputation(smol, { rows: 1, length: 2048 })).toBe(false)
    expect(needsRecomputation(smol, { rows: 1, length: 4096 })).toBe(true)
  })
})

describe('planMemory', () => {
  const size = { rows: 4, length: 256 }

  it('keeps activations where there is room, and computes them again where there is not', () => {
    expect(planMemory(smol, size, null).isRecomputed).toBe(false)
    expect(planMemory(smol, size, 8e9).isRecomputed).toBe(false)
    expect(planMemory(smol, size, 1.5e9)).toMatchObject({ isRecomputed: true, availableBytes: 1.5e9 })
    expect(recomputedBytes(smol, size)).toBeLessThan(activationBytes(smol, size))
  })

  it('grows linearly with the length of a row, but for half a byte a pair of tokens that says who sees whom', () => {
    const bytesOf = (length: number): number => recomputedBytes(smol, { rows: 1, length }) - length ** 2 / 2
    expect(bytesOf(16384) - bytesOf(8192)).toBeCloseTo(2 * (bytesOf(8192) - bytesOf(4096)), -3)
    expect(recomputedBytes(smol, { rows: 1, length: 8192 })).toBeLessThan(4e9)
  })

  it('refuses what cannot fit, with the figures', () => {
    expect(() => planMemory(smol, { rows: 1, length: 8192 }, 1.5e9)).toThrow(
      expect.objectContaining({
        code: 'out_of_memory',
        message: expect.stringMatching(/row of 8192 tokens needs about \d+\.\d GB beside the weights, but 1\.5 GB/),
      }),
    )
  })
})
