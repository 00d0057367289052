/**
 * When layers are recomputed.
 */
import { describe, expect, it } from 'vitest'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import {
  activationBytes,
  forwardBytes,
  needsRecomputation,
  planMemory,
  recomputedBytes,
} from '#training/trainer/memory.js'
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
  const loss = 'policy'

  it('keeps activations where there is room, and computes them again where there is not', () => {
    expect(planMemory(smol, { loss, largest: size, measured: null }, null).isRecomputed).toBe(false)
    expect(planMemory(smol, { loss, largest: size, measured: null }, 8e9).isRecomputed).toBe(false)
    expect(planMemory(smol, { loss, largest: size, measured: null }, 1.5e9)).toMatchObject({
      isRecomputed: true,
      availableBytes: 1.5e9,
    })
    expect(recomputedBytes(smol, size)).toBeLessThan(activationBytes(smol, size))
  })

  it('grows linearly with the length of a row, but for half a byte a pair of tokens that says who sees whom', () => {
    const bytesOf = (length: number): number => recomputedBytes(smol, { rows: 1, length }) - length ** 2 / 2
    expect(bytesOf(16384) - bytesOf(8192)).toBeCloseTo(2 * (bytesOf(8192) - bytesOf(4096)), -3)
    expect(recomputedBytes(smol, { rows: 1, length: 8192 })).toBeLessThan(4e9)
  })

  it('refuses what cannot fit, with the figures', () => {
    expect(() => planMemory(smol, { loss, largest: { rows: 1, length: 8192 }, measured: null }, 1.5e9)).toThrow(
      expect.objectContaining({
        code: 'out_of_memory',
        message: expect.stringMatching(/row of 8192 tokens needs about \d{4} MB beside the weights, but 1500 MB/),
      }),
    )
  })

  it('counts validation rows, forward only, beside the rows that are trained on', () => {
    const measured = { rows: 1, length: 16384 }
    const loss = 'cross_entropy'
    const alone = recomputedBytes(smol, size)
    const both = alone + forwardBytes(smol, measured)
    expect(forwardBytes(smol, measured)).toBeLessThan(recomputedBytes(smol, measured) / 2)
    expect(planMemory(smol, { loss, largest: size, measured }, both)).toMatchObject({
      isRecomputed: true,
      neededBytes: both,
    })
    expect(planMemory(smol, { loss, largest: size, measured: null }, alone)).toMatchObject({ neededBytes: alone })
    expect(() => planMemory(smol, { loss, largest: size, measured }, both - 1)).toThrow(
      expect.objectContaining({
        code: 'out_of_memory',
        message: expect.stringMatching(
          /row of 256 tokens and the longest validation row of 16384 together need about \d{4} MB beside the weights/,
        ),
      }),
    )
  })

  it.each([
    ['policy', /shorter trajectories, set a smaller packed_sequence_length, or free memory$/],
    ['cross_entropy', /^train on shorter rows, or free memory$/],
    ['preference', /^train on shorter pairs, or free memory$/],
  ] as const)('names what helps a job with the loss %s', (kind, hint) => {
    const largest = { rows: 1, length: 8192 }
    const refusal = expect.objectContaining({ hint: expect.stringMatching(hint) })
    expect(() => planMemory(smol, { loss: kind, largest, measured: null }, 1e9)).toThrow(refusal)
    const other = kind === 'policy' ? hint : /give shorter validation rows/
    const measured = expect.objectContaining({ hint: expect.stringMatching(other) })
    expect(() => planMemory(smol, { loss: kind, largest, measured: size }, 1e9)).toThrow(measured)
  })

  it('counts the rows of a policy job twice where they are scored between steps', () => {
    const largest = { rows: 1, length: 8192 }
    const needed = recomputedBytes(smol, largest) + forwardBytes(smol, largest)
    expect(planMemory(smol, { loss, largest, measured: largest }, needed)).toMatchObject({ neededBytes: needed })
    expect(() => planMemory(smol, { loss, largest, measured: largest }, needed - 1)).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^the longest row of 8192 tokens needs about/) }),
    )
  })
})
