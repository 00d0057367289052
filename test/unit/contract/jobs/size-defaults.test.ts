/** Options by the size of a base model: what is chosen, what is left alone, and what is said about a rate that is too small. */
import { describe, expect, test } from 'vitest'
import { sizeDefaults, smallRateWarning } from '../../../../src/contract/jobs/size-defaults.js'

const SPARK = 4_491_520

describe('sizeDefaults', () => {
  test.each([
    ['rl', SPARK, { learning_rate: 1e-3, advantage_balance: 1, target_kl: 0.2, tokens_per_step: 384 }],
    ['rl', 30e6, { learning_rate: 3e-4, tokens_per_step: 384 }],
    ['rl', 135e6, { learning_rate: 3e-4, tokens_per_step: 1024 }],
    ['rl', 600e6, { tokens_per_step: 1024 }],
    ['rl', 7e9, {}],
    ['rl', null, {}],
    ['sft', SPARK, { learning_rate: 1e-3 }],
    ['sft', 135e6, { learning_rate: 3e-4 }],
    ['sft', 600e6, {}],
    ['dpo', SPARK, { learning_rate: 1e-4 }],
    ['dpo', 135e6, {}],
  ] as const)('of a %s job with %s parameters are %j', (kind, parameters, expected) => {
    expect(sizeDefaults(kind, {}, parameters)).toEqual(expected)
  })
  test('what was given stays, also null; one option about steps speaks for all of them', () => {
    const given = { learning_rate: null, advantage_balance: 0, target_kl: 0.5, grad_accumulation_sequences: 2 }
    expect(sizeDefaults('rl', given, SPARK)).toEqual({})
    expect(sizeDefaults('rl', { packed_sequence_length: 64 }, SPARK)).not.toHaveProperty('tokens_per_step')
  })
})

describe('smallRateWarning', () => {
  const option = 'experimental_config.learning_rate'
  const said = (rate: number, parameters: number | null) => smallRateWarning('rl', { rate, option, parameters })
  test('names the rate that was measured for the size', () => {
    expect(said(5e-6, SPARK)).toBe(
      'a learning rate of 5e-6 hardly moves a base model of 4.5 million parameters: 1e-3 was measured for this size (experimental_config.learning_rate)',
    )
    expect(said(5e-6, 135e6)).toContain('3e-4 was measured for this size')
  })
  test.each([
    [5e-4, SPARK],
    [0, SPARK],
    [5e-6, 7e9],
    [5e-6, null],
  ])('says nothing of %s with %s parameters', (rate, parameters) => {
    expect(said(rate, parameters)).toBeNull()
  })
})
