/**
 * GGUF metadata as a decoder, the recovery of Llama 3's rotary scaling, and what is refused.
 */
import { describe, expect, test } from 'vitest'
import { fromGgufMetadata, type GgufTensorFacts } from '../../../../src/model/architectures/gguf-config.js'
import { expectCode } from '../../../support/expect-code.js'

/** Llama-3.2-1B. */
const LLAMA: readonly (readonly [string, unknown])[] = [
  ['general.architecture', 'llama'],
  ['llama.block_count', 16],
  ['llama.context_length', 131072],
  ['llama.embedding_length', 2048],
  ['llama.feed_forward_length', 8192],
  ['llama.attention.head_count', 32],
  ['llama.attention.head_count_kv', 8],
  ['llama.attention.key_length', 64],
  ['llama.attention.value_length', 64],
  ['llama.attention.layer_norm_rms_epsilon', 1e-5],
  ['llama.rope.freq_base', 500000],
  ['llama.rope.dimension_count', 64],
  ['llama.vocab_size', 128256],
]

const TIED: GgufTensorFacts = { hasTensor: () => false, embeddingRows: 128256, ropeFrequencyDivisors: null }

function metadata(changes: Record<string, unknown> = {}): ReadonlyMap<string, unknown> {
  return new Map([...LLAMA, ...Object.entries(changes)])
}

/** The divisors llama.cpp's converter stores, by its own formula in wavelengths. */
function divisors(theta: number, headSize: number, factor: number, original = 8192): Float32Array {
  return Float32Array.from({ length: headSize / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * i) / headSize)
    if (wavelength < original / 4) return 1
    if (wavelength > original) return factor
    const smooth = (original / wavelength - 1) / 3
    return 1 / ((1 - smooth) / factor + smooth)
  })
}

test('Llama 3.2', () => {
  const facts = { ...TIED, ropeFrequencyDivisors: divisors(500000, 64, 32) }
  expect(fromGgufMetadata(metadata(), facts)).toEqual({
    family: 'llama',
    layerCount: 16,
    hiddenSize: 2048,
    headCount: 32,
    kvHeadCount: 8,
    headSize: 64,
    mlpSize: 8192,
    vocabularySize: 128256,
    contextLength: 131072,
    normEpsilon: 1e-5,
    rotary: {
      theta: 500000,
      llama3Scaling: { factor: 32, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 },
      linearFactor: 1,
    },
    activation: 'silu',
    hasQkvBias: false,
    hasOutputBias: false,
    hasMlpBias: false,
    hasQkNorm: false,
    isEmbeddingTied: true,
  })
})

test('divisors of one mean no scaling', () => {
  const facts = { ...TIED, ropeFrequencyDivisors: new Float32Array(32).fill(1) }
  expect(fromGgufMetadata(metadata(), facts).rotary.llama3Scaling).toBeNull()
})

test('Qwen2 and Qwen3 read their own keys; tensors tell of biases and an own head', () => {
  const rename = (family: string) =>
    new Map(
      LLAMA.map(([key, value]) => [
        key.replace(/^llama\./, `${family}.`),
        key === 'general.architecture' ? family : value,
      ]),
    )
  const names = ['lm_head.weight', 'model.layers.0.self_attn.q_proj.bias']
  const facts = { ...TIED, hasTensor: (name: string) => names.includes(name) }
  const expected = { family: 'qwen2', hasQkvBias: true, hasOutputBias: false, hasQkNorm: false, isEmbeddingTied: false }
  expect(fromGgufMetadata(rename('qwen2'), facts)).toMatchObject(expected)
  expect(fromGgufMetadata(rename('qwen3'), TIED)).toMatchObject({ family: 'qwen3', hasQkNorm: true })
})

test('linear scaling by the new and the old key', () => {
  const scaled = { 'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': 4 }
  expect(fromGgufMetadata(metadata(scaled), TIED).rotary.linearFactor).toBe(4)
  expect(fromGgufMetadata(metadata({ 'llama.rope.scale_linear': 2 }), TIED).rotary.linearFactor).toBe(2)
  const yarn = {
    'llama.rope.scaling.type': 'yarn',
    'llama.rope.scaling.factor': 4,
    'llama.rope.scaling.original_context_length': 1024,
  }
  expect(fromGgufMetadata(metadata(yarn), TIED).rotary).toMatchObject({
    yarn: { factor: 4, originalContextLength: 1024, betaFast: 32, betaSlow: 1, isTruncated: true },
    attentionFactor: 0.1 * Math.log(4) + 1,
  })
})

test('a sliding window shortens the context', () => {
  expect(fromGgufMetadata(metadata({ 'llama.attention.sliding_window': 4096 }), TIED).contextLength).toBe(4096)
  expect(fromGgufMetadata(metadata({ 'llama.attention.sliding_window': 0 }), TIED).contextLength).toBe(131072)
})

describe('refused', () => {
  const cases: [string, ReadonlyMap<string, unknown>, string, string[]][] = [
    ['another family', metadata({ 'general.architecture': 'phi3' }), 'unknown_architecture', ['phi3', 'qwen3']],
    ['no family', new Map(), 'unknown_architecture', ['nothing']],
    ['a family that is no text', metadata({ 'general.architecture': 1 }), 'unknown_architecture', []],
    ['experts', metadata({ 'llama.expert_count': 8 }), 'unsupported_model', ['8 experts']],
    ['heads by layer', metadata({ 'llama.attention.head_count': [8, 4] }), 'unsupported_model', ['by layer']],
    ['longrope', metadata({ 'llama.rope.scaling.type': 'longrope' }), 'unsupported_model', ['longrope']],
    ['partial rotation', metadata({ 'llama.rope.dimension_count': 32 }), 'unsupported_model', ['dimension_count 32']],
    ['other value heads', metadata({ 'llama.attention.value_length': 128 }), 'unsupported_model', ['value_length']],
    ['a 64-bit lie', metadata({ 'llama.block_count': 2n ** 60n }), 'invalid_config', ['block_count']],
    ['a negative size', metadata({ 'llama.embedding_length': -1 }), 'invalid_config', ['embedding_length']],
    ['a missing size', metadata({ 'llama.feed_forward_length': undefined }), 'invalid_config', ['feed_forward_length']],
    ['NaN', metadata({ 'llama.rope.freq_base': Number.NaN }), 'invalid_config', ['freq_base']],
    ['odd groups', metadata({ 'llama.attention.head_count_kv': 5 }), 'invalid_config', ['5 key/value heads']],
  ]
  test.each(cases)('%s', async (_, map, code, words) => {
    await expectCode(() => fromGgufMetadata(map, TIED), code, ...words)
  })

  test('divisors that are not the scaling of Llama 3', async () => {
    const ropeFrequencyDivisors = divisors(500000, 64, 32, 4096)
    await expectCode(
      () => fromGgufMetadata(metadata(), { ...TIED, ropeFrequencyDivisors }),
      'unsupported_model',
      'rope_freqs',
    )
  })

  test('divisors of another length', async () => {
    const ropeFrequencyDivisors = new Float32Array(16).fill(1)
    await expectCode(
      () => fromGgufMetadata(metadata(), { ...TIED, ropeFrequencyDivisors }),
      'invalid_config',
      '32 values',
    )
  })
})
