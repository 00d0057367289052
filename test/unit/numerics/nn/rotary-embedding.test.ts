/**
 * Rotary frequencies and tables against their formulas; the llama3 scaling is also part of the PyTorch goldens.
 */
import { describe, expect, it } from 'vitest'
import { rotaryFrequencies, rotaryTables } from '#numerics/nn/rotary-embedding.js'

const plain = { theta: 10000, llama3Scaling: null, linearFactor: 1 }

describe('rotaryFrequencies', () => {
  it('are powers of theta', () => {
    const frequencies = rotaryFrequencies(plain, 8)
    expect([...frequencies].map((value) => value.toPrecision(6))).toEqual([
      '1.00000',
      '0.100000',
      '0.0100000',
      '0.00100000',
    ])
  })

  it('are divided by the linear factor', () => {
    expect([...rotaryFrequencies({ ...plain, linearFactor: 4 }, 4)]).toEqual([0.25, 0.0025])
  })

  it('llama3 scaling keeps short waves, stretches long ones and interpolates between', () => {
    const llama3Scaling = { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 }
    const options = { theta: 500000, llama3Scaling, linearFactor: 1 }
    const scaled = rotaryFrequencies(options, 128)
    const unscaled = rotaryFrequencies({ ...options, llama3Scaling: null }, 128)
    const factors = [...scaled].map((value, i) => unscaled[i]! / value)
    expect(factors[0]).toBe(1)
    expect(factors[63]).toBeCloseTo(8, 10)
    for (let i = 1; i < factors.length; i++) expect(factors[i]!).toBeGreaterThanOrEqual(factors[i - 1]!)
    expect(factors.filter((factor) => factor > 1.001 && factor < 7.999).length).toBeGreaterThan(2)
  })
})

describe('rotaryTables', () => {
  it('hold cos and sin of position times frequency', () => {
    const { cos, sin } = rotaryTables(Float64Array.of(1, 0.5), 3)
    expect([...cos]).toEqual([1, 1, Math.cos(1), Math.cos(0.5), Math.cos(2), Math.cos(1)].map(Math.fround))
    expect([...sin]).toEqual([0, 0, Math.sin(1), Math.sin(0.5), Math.sin(2), Math.sin(1)].map(Math.fround))
  })
})
