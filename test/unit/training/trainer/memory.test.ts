/**
 * When layers are recomputed.
 */
import { describe, expect, it } from 'vitest'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { activationBytes, needsRecomputation } from '#training/trainer/memory.js'

const smol: DecoderConfig = {
  family: 'llama',
  layerCount: 30,
  hiddenSize: 576,
  headCount: 9,
  kvHeadCount: 3,
  headSize: 64,
  mlpSize: 1536,
  vocabularySize: 49152,
  contextLength: 8192,
  normEpsilon: 1e-5,
  rotary: { theta: 1e5, llama3Scaling: null, linearFactor: 1 },
  activation: 'silu',
  hasQkvBias: false,
  hasOutputBias: false,
  hasMlpBias: false,
  hasQkNorm: false,
  isEmbeddingTied: true,
}

describe('needsRecomputation', () => {
  it('keeps the activations of four rows of 256 tokens of a 135M model, about 1.6 GB', () => {
    expect(activationBytes(smol, { rows: 4, length: 256 })).toBeGreaterThan(1.3e9)
    expect(activationBytes(smol, { rows: 4, length: 256 })).toBeLessThan(1.9e9)
    expect(needsRecomputation(smol, { rows: 4, length: 256 })).toBe(false)
  })

  it('recomputes a row of 2048 tokens, whose attention alone is larger', () => {
    expect(needsRecomputation(smol, { rows: 1, length: 2048 })).toBe(true)
  })
})
