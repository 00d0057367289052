/**
 * Rotations that are stretched, against `modeling_rope_utils.py` of transformers 5.24 (its functions run in PyTorch, float32: 1e-6).
 * Whole models with them are among the goldens of the families.
 */
import { describe, expect, test } from 'vitest'
import { rotaryOf } from '#model/architectures/hf-rotary.js'
import { rotaryFrequencies } from '#numerics/nn/rotary-embedding.js'

const QWEN = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 32_768 }
const FAST = [1, 0.17782793939113617, 0.03162277862429619]
const SLOW = [4.4456985051510856e-5, 7.905693564680405e-6, 1.405853367941745e-6]

const YARN: readonly (readonly [string, object, number[], number])[] = [
  ['as Qwen describes it', QWEN, [...FAST, 0.004217559937387705, 0.0005000000237487257, ...SLOW], 1.138629436111989],
  [
    'with the weights of DeepSeek, and other turns',
    { ...QWEN, mscale: 0.7, mscale_all_dim: 1, beta_fast: 16, beta_slow: 2 },
    [...FAST, 0.005623413249850273, 0.0006250000442378223, ...SLOW],
    0.9634746568860826,
  ],
  [
    'without truncation',
    { ...QWEN, truncate: false },
    [...FAST, 0.005517270416021347, 0.000607408001087606, ...SLOW],
    1.138629436111989,
  ],
  [
    'with a factor of its own, and that of the lengths',
    { ...QWEN, factor: null, attention_factor: 1.5 },
    [...FAST, 0.004217559937387705, 0.0005000000237487257, ...SLOW],
    1.5,
  ],
]

test.each(YARN)('yarn %s', (_, parameters, expected, attentionFactor) => {
  for (const json of [
    { rope_parameters: { rope_theta: 1e6, ...parameters } },
    { rope_theta: 1e6, rope_scaling: parameters as never },
  ]) {
    const { options, contextLength } = rotaryOf(json, { trainedLength: 131_072, headSize: 16 })
    rotaryFrequencies(options, 16).forEach((value, i) => void expect(value / (expected[i] as number)).toBeCloseTo(1, 6))
    expect(options.attentionFactor).toBeCloseTo(attentionFactor, 12)
    expect(contextLength).toBe(131_072)
  }
})

test('yarn stretches a context that is given as the trained one', () => {
  const json = { rope_theta: 1e6, rope_scaling: QWEN }
  expect(rotaryOf(json, { trainedLength: 32_768, headSize: 16 }).contextLength).toBe(131_072)
})

const SHORT = [1, 1.1, 1.2, 1.3, 1.4, 1.5, 2, 3]

test('longrope turns as in the trained context, which is all of it here', () => {
  const scaling = { type: 'longrope', short_factor: SHORT, long_factor: SHORT }
  const json = { rope_theta: 1e4, original_max_position_embeddings: 4096, rope_scaling: scaling }
  const { options, contextLength } = rotaryOf(json, { trainedLength: 131_072, headSize: 16 })
  const expected = [1, 0.2874797582626343, 0.0833333358168602, 0.024325214326381683]
  const slow = [0.0071428571827709675, 0.0021081853192299604, 0.0005000000237487257, 0.00010540925723034889]
  const frequencies = rotaryFrequencies(options, 16)
  for (const [i, value] of [...expected, ...slow].entries()) expect((frequencies[i] ?? 0) / value).toBeCloseTo(1, 6)
  expect(options.attentionFactor).toBeCloseTo(1.1902380714238083, 12)
  expect(contextLength).toBe(4096)
})

test('dynamic is no stretching up to the trained context', () => {
  const json = { rope_theta: 1e4, rope_scaling: { type: 'dynamic', factor: 4 } }
  const { options, contextLength } = rotaryOf(json, { trainedLength: 2048, headSize: 16 })
  expect(options).toEqual({ theta: 1e4, llama3Scaling: null, linearFactor: 1 })
  expect(contextLength).toBe(2048)
})

describe('refused', () => {
  test.each<[string, object]>([
    ['rope type "mrope", expected one of default, linear, dynamic, llama3, yarn, longrope', { type: 'mrope' }],
    ['short_factor', { type: 'longrope', short_factor: [1, 2] }],
    ['factor', { type: 'yarn', factor: -1 }],
    ['mscale', { type: 'yarn', factor: 4, mscale: 'x', mscale_all_dim: 1 }],
  ])('%s', (words, scaling) => {
    const json = { rope_theta: 1e4, rope_scaling: scaling as never }
    expect(() => rotaryOf(json, { trainedLength: 2048, headSize: 16 })).toThrow(words)
  })
})
