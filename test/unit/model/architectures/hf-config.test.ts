/**
 * `config.json` of each family as released, both layouts of the rotary parameters, and what is refused.
 */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../../../src/base/util/json.js'
import { fromHfConfig } from '../../../../src/model/architectures/hf-config.js'
import { expectCode } from '../../../support/expect-code.js'
import smollm2 from '../../../support/model/smollm2-135m.json' with { type: 'json' }

/** SmolLM2-135M-Instruct. */
const SMOLLM2: JsonObject = {
  architectures: ['LlamaForCausalLM'],
  attention_bias: false,
  hidden_act: 'silu',
  hidden_size: 576,
  intermediate_size: 1536,
  is_llama_config: true,
  max_position_embeddings: 8192,
  mlp_bias: false,
  model_type: 'llama',
  num_attention_heads: 9,
  num_hidden_layers: 30,
  num_key_value_heads: 3,
  rms_norm_eps: 1e-5,
  rope_interleaved: false,
  rope_scaling: null,
  rope_theta: 100000,
  tie_word_embeddings: true,
  vocab_size: 49152,
}

/** Qwen2.5-0.5B-Instruct. */
const QWEN25: JsonObject = {
  architectures: ['Qwen2ForCausalLM'],
  hidden_act: 'silu',
  hidden_size: 896,
  intermediate_size: 4864,
  max_position_embeddings: 32768,
  max_window_layers: 21,
  model_type: 'qwen2',
  num_attention_heads: 14,
  num_hidden_layers: 24,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000.0,
  sliding_window: 32768,
  tie_word_embeddings: true,
  use_sliding_window: false,
  vocab_size: 151936,
}

/** Qwen3-0.6B. */
const QWEN3: JsonObject = {
  ...QWEN25,
  architectures: ['Qwen3ForCausalLM'],
  attention_bias: false,
  head_dim: 128,
  hidden_size: 1024,
  intermediate_size: 3072,
  max_position_embeddings: 40960,
  model_type: 'qwen3',
  num_attention_heads: 16,
  num_hidden_layers: 28,
  num_key_value_heads: 8,
  rope_scaling: null,
  sliding_window: null,
}

/** Mistral-7B-v0.1. */
const MISTRAL: JsonObject = {
  ...SMOLLM2,
  architectures: ['MistralForCausalLM'],
  hidden_size: 4096,
  intermediate_size: 14336,
  max_position_embeddings: 32768,
  model_type: 'mistral',
  num_attention_heads: 32,
  num_key_value_heads: 8,
  rope_theta: 10000.0,
  sliding_window: 4096,
  tie_word_embeddings: false,
  vocab_size: 32000,
}

const LLAMA3_SCALING = {
  factor: 32.0,
  high_freq_factor: 4.0,
  low_freq_factor: 1.0,
  original_max_position_embeddings: 8192,
}

test('SmolLM2', () => {
  expect(fromHfConfig(SMOLLM2)).toEqual(smollm2)
})

test('Qwen2.5 has biases on q, k, v and an idle sliding window', () => {
  expect(fromHfConfig(QWEN25)).toMatchObject({
    family: 'qwen2',
    headSize: 64,
    contextLength: 32768,
    hasQkvBias: true,
    hasOutputBias: false,
    hasMlpBias: false,
    hasQkNorm: false,
  })
})

test('Qwen3 has head norms and a head size of its own', () => {
  const expected = { family: 'qwen3', headSize: 128, headCount: 16, hasQkNorm: true, hasQkvBias: false }
  expect(fromHfConfig(QWEN3)).toMatchObject(expected)
  expect(fromHfConfig({ ...QWEN3, head_dim: null })).toMatchObject({ headSize: 128 })
})

test("Mistral's context ends where its sliding window does", () => {
  expect(fromHfConfig(MISTRAL)).toMatchObject({ family: 'mistral', contextLength: 4096, isEmbeddingTied: false })
  expect(fromHfConfig({ ...MISTRAL, sliding_window: null })).toMatchObject({ contextLength: 32768 })
})

test('a sliding window in use shortens the context, full attention in every layer does not', () => {
  const windowed = { ...QWEN25, use_sliding_window: true, sliding_window: 4096 }
  expect(fromHfConfig(windowed).contextLength).toBe(4096)
  expect(fromHfConfig({ ...windowed, layer_types: ['full_attention', 'full_attention'] }).contextLength).toBe(32768)
  expect(fromHfConfig({ ...windowed, layer_types: ['full_attention', 'sliding_attention'] }).contextLength).toBe(4096)
})

test('Llama 3.2: frequency-dependent scaling in the old layout', () => {
  const config = { ...SMOLLM2, rope_theta: 500000, rope_scaling: { ...LLAMA3_SCALING, rope_type: 'llama3' } }
  expect(fromHfConfig(config).rotary).toEqual({
    theta: 500000,
    llama3Scaling: { factor: 32, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 },
    linearFactor: 1,
  })
})

test('rope_parameters of transformers 5 mean the same', () => {
  const { rope_theta: theta, rope_scaling: _, ...rest } = SMOLLM2
  const layouts: [JsonObject, JsonObject][] = [
    [{ rope_theta: theta }, { rope_parameters: { rope_type: 'default', rope_theta: theta } }],
    [
      { rope_theta: theta, rope_scaling: { rope_type: 'llama3', ...LLAMA3_SCALING } },
      { rope_parameters: { rope_type: 'llama3', rope_theta: theta, ...LLAMA3_SCALING } },
    ],
    [
      { rope_theta: theta, rope_scaling: { type: 'linear', factor: 2 } },
      { rope_parameters: { rope_type: 'linear', rope_theta: theta, factor: 2 } },
    ],
  ]
  for (const [older, newer] of layouts) {
    expect(fromHfConfig({ ...rest, ...newer })).toEqual(fromHfConfig({ ...rest, ...older }))
  }
  expect(fromHfConfig({ ...rest, rope_parameters: { rope_type: 'linear', factor: 2 } }).rotary.theta).toBe(10_000)
})

test('biases of Llama follow attention_bias and mlp_bias', () => {
  const biases = { hasQkvBias: true, hasOutputBias: true, hasMlpBias: false }
  expect(fromHfConfig({ ...SMOLLM2, attention_bias: true })).toMatchObject(biases)
  expect(fromHfConfig({ ...SMOLLM2, mlp_bias: true }).hasMlpBias).toBe(true)
})

test('absent fields take the defaults of the family', () => {
  const { rms_norm_eps: _1, rope_theta: _2, tie_word_embeddings: _3, num_key_value_heads: _4, ...rest } = SMOLLM2
  expect(fromHfConfig(rest)).toMatchObject({
    normEpsilon: 1e-6,
    rotary: { theta: 10_000 },
    isEmbeddingTied: false,
    kvHeadCount: 9,
  })
})

test('without model_type the architecture decides', () => {
  const { model_type: _, ...rest } = QWEN3
  expect(fromHfConfig(rest).family).toBe('qwen3')
})

test('of a model for images and text the text part is read, with what published files leave out', () => {
  // google/gemma-3-4b-it
  const text = {
    model_type: 'gemma3_text',
    ...{ hidden_size: 2560, intermediate_size: 10240, num_hidden_layers: 34, sliding_window: 1024 },
    rope_scaling: { factor: 8, rope_type: 'linear' },
  }
  const whole = { model_type: 'gemma3', architectures: ['Gemma3ForConditionalGeneration'], vision_config: {} }
  expect(fromHfConfig({ ...whole, text_config: text })).toMatchObject({
    family: 'gemma3_text',
    ...{ layerCount: 34, hiddenSize: 2560, headCount: 8, kvHeadCount: 4, headSize: 256, mlpSize: 10_240 },
    ...{ vocabularySize: 262_208, contextLength: 131_072, slidingWindow: 1024, isEmbeddingTied: true },
    rotary: { theta: 1e6, linearFactor: 8 },
    slidingRotary: { theta: 1e4, linearFactor: 1 },
  })
  const quantized = { ...whole, text_config: text, quantization_config: { bits: 4 } }
  expect(() => fromHfConfig(quantized)).toThrow(expect.objectContaining({ code: 'unsupported_model' }))
})

test('another model of more than text is told where its text part is', () => {
  const config = { model_type: 'llava', text_config: { ...SMOLLM2 }, vision_config: {} }
  expect(() => fromHfConfig(config)).toThrow(expect.objectContaining({ hint: expect.stringContaining('GGUF') }))
})

describe('refused', () => {
  const cases: [string, JsonObject, string, string[]][] = [
    ['another family', { ...SMOLLM2, model_type: 'gpt2' }, 'unknown_architecture', ['"gpt2"', 'llama, mistral, qwen2']],
    ['an empty config', {}, 'unknown_architecture', ['null']],
    ['a prototype name', { model_type: '__proto__' }, 'unknown_architecture', []],
    [
      'another head',
      { ...SMOLLM2, architectures: ['LlamaForSequenceClassification'] },
      'unsupported_model',
      ['Sequence'],
    ],
    ['quantized weights', { ...SMOLLM2, quantization_config: { bits: 4 } }, 'unsupported_model', ['quantized']],
    ['another activation', { ...SMOLLM2, hidden_act: 'gelu' }, 'unsupported_model', ['gelu']],
    ['mrope', { ...SMOLLM2, rope_scaling: { type: 'mrope', factor: 4 } }, 'unsupported_model', ['mrope']],
    ['partial rotation', { ...SMOLLM2, partial_rotary_factor: 0.5 }, 'unsupported_model', ['partial']],
    ['unknown layer types', { ...SMOLLM2, layer_types: ['linear_attention'] }, 'unsupported_model', ['linear_att']],
    ['rope_scaling as text', { ...SMOLLM2, rope_scaling: 'linear' }, 'invalid_config', ['rope_scaling']],
    ['rope_scaling as a list', { ...SMOLLM2, rope_scaling: [] }, 'invalid_config', ['rope_scaling']],
    ['a missing factor', { ...SMOLLM2, rope_scaling: { type: 'linear' } }, 'invalid_config', ['factor']],
    ['a missing size', { ...SMOLLM2, hidden_size: null }, 'invalid_config', ['hidden_size']],
    ['a size as text', { ...SMOLLM2, vocab_size: '49152' }, 'invalid_config', ['vocab_size']],
    ['a negative size', { ...SMOLLM2, num_hidden_layers: -1 }, 'invalid_config', ['num_hidden_layers']],
    ['no layers', { ...SMOLLM2, num_hidden_layers: 0 }, 'invalid_config', ['num_hidden_layers']],
    ['a million layers', { ...SMOLLM2, num_hidden_layers: 1e6 }, 'invalid_config', ['1000000 layers']],
    ['an absurd size', { ...SMOLLM2, intermediate_size: 1e12 }, 'invalid_config', ['intermediate_size']],
    ['a fractional size', { ...SMOLLM2, vocab_size: 1.5 }, 'invalid_config', ['vocab_size']],
    ['heads that do not divide', { ...SMOLLM2, num_attention_heads: 7 }, 'invalid_config', ['head_dim']],
    ['groups that do not divide', { ...SMOLLM2, num_key_value_heads: 2 }, 'invalid_config', ['9 query heads']],
    ['an odd head size', { ...SMOLLM2, head_dim: 63 }, 'invalid_config', ['63']],
    ['epsilon of 0', { ...SMOLLM2, rms_norm_eps: 0 }, 'invalid_config', ['rms_norm_eps']],
    ['a flag as text', { ...SMOLLM2, tie_word_embeddings: 'yes' }, 'invalid_config', ['tie_word_embeddings']],
  ]
  test.each(cases)('%s', async (_, config, code, words) => {
    await expectCode(() => fromHfConfig(config), code, ...words)
  })
})
