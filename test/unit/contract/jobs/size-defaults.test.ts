/** Options by the size of a base model: what is chosen, what is left alone, and what is said about a rate that is too small. */
import { describe, expect, test } from 'vitest'
import { openPasses, sizeDefaults, smallRateWarning } from '../../../../src/contract/jobs/size-defaults.js'

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

describe('openPasses', () => {
  const at = { rows: 128, bytes: 20_000, parameters: SPARK, hasValidation: false }
  const stop = { early_stopping_patience: 3, early_stopping_min_delta: 0.001 }
  test('holds rows out and trains until they get no better, within bounds that follow from the data', () => {
    expect(openPasses({}, at)).toEqual({ epochs: 40, ...stop, validation_split: 0.1, seed: 0 })
    expect(openPasses({}, { ...at, rows: 40, bytes: 6000 })).toMatchObject({ epochs: 40, validation_split: 0.2 })
    // 540,000 tokens of the built-in model, and 18,000 of one thirty times as large, are about ten minutes
    expect(openPasses({}, { ...at, rows: 2000, bytes: 400_000 }).epochs).toBe(13)
    expect(openPasses({}, { ...at, parameters: 135e6 }).epochs).toBe(8)
    expect(openPasses({}, { ...at, rows: 50_000, bytes: 10_000_000 })).toEqual({
      epochs: 1,
      ...stop,
      validation_split: 0.01,
      seed: 0,
    })
  })
  test('rows of another file are measured, and none is held out', () => {
    expect(openPasses({}, { ...at, hasValidation: true })).toEqual({ epochs: 40, ...stop })
  })
  test.each([
    ['a large model', {}, { ...at, parameters: 1e9 }, 4],
    ['one of unknown size', {}, { ...at, parameters: null }, 4],
    ['rows too few to hold some out', {}, { ...at, rows: 19 }, 6],
    ['a split of none', { validation_split: 0 }, at, 4],
    ['a schedule over all passes', { learning_rate_schedule: 'cosine' }, at, 4],
  ])('%s has a number of passes', (_, given, where, epochs) => {
    expect(openPasses(given, where)).toEqual({ epochs })
  })
  test('what is given stays', () => {
    expect(openPasses({ epochs: 2 }, at)).toEqual({})
    expect(openPasses({ learning_rate: [1e-3, 1e-4] }, at)).toEqual({})
    const given = { validation_split: 0.3, early_stopping_patience: 1, seed: 7 }
    expect(openPasses(given, at)).toEqual({ epochs: 40 })
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
