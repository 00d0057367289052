/**
 * GGUF metadata as `DecoderConfig`: the architectures `llama` (also Mistral), `qwen2`, `qwen3`, `smollm3` and `gemma3` of llama.cpp.
 *
 * What the metadata leaves out is read off the tensors: the vocabulary's size, tied embeddings, biases. Llama 3's rotary
 * scaling is stored only as a tensor of frequency divisors; its four parameters are recovered from the divisors and checked against them.
 * Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "LLM"; `Llama3RopeParameters` as in transformers'
 * `modeling_rope_utils.py`.
 */

import { WeightsError } from '#base/errors/errors.js'
import { llama3Divisor, type RotaryOptions, yarnAttentionFactor } from '#numerics/nn/rotary-embedding.js'
import { type ConfigReader, createConfigReader, invalidConfig, unsupportedModel } from './config-reader.js'
import { assertConsistent, type DecoderConfig, type LayerAttention } from './decoder-config.js'

const WHAT = 'GGUF metadata'

/** `general.architecture` of every supported family. */
export const GGUF_FAMILIES: readonly string[] = ['llama', 'qwen2', 'qwen3', 'smollm3', 'gemma3']

/** What llama.cpp takes where a file does not say: every sixth layer of Gemma 3 sees all, every fourth of SmolLM3 is not turned. */
export const GEMMA3_PERIOD = 6
export const SMOLLM3_PERIOD = 4
export const GEMMA3_SLIDING_THETA = 10_000

/** Facts about the tensors that the metadata does not state. */
export interface GgufTensorFacts {
  readonly hasTensor: (hfName: string) => boolean
  /** Rows of the embedding; null if there is none. */
  readonly embeddingRows: number | null
  /** `rope_freqs.weight` [D/2]; null if there is none. */
  readonly ropeFrequencyDivisors: Float32Array | null
}

/** Llama 3's choices, the same in every released model; only the factor differs (8 in 3.1, 32 in 3.2). */
const LLAMA3 = { lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 }

/**
 * Maps GGUF metadata to a decoder.
 *
 * @throws {WeightsError} `unknown_architecture`, `invalid_config`, `unsupported_model`, as `fromHfConfig`
 */
export function fromGgufMetadata(metadata: ReadonlyMap<string, unknown>, facts: GgufTensorFacts): DecoderConfig {
  const family = familyOf(metadata)
  const reader = createConfigReader((key) => metadata.get(`${family}.${key}`), `${WHAT} (${family})`)
  refuseUnsupported(reader)
  const hiddenSize = reader.size('embedding_length')
  const headCount = reader.size('attention.head_count')
  const headSize = reader.size('attention.key_length', hiddenSize / headCount)
  for (const key of ['attention.value_length', 'rope.dimension_count']) {
    const size = reader.size(key, headSize)
    if (size !== headSize) throw unsupportedModel(WHAT, `has ${key} ${size}, expected the head size ${headSize}`)
  }
  const trainedLength = reader.size('context_length')
  const window = reader.raw('attention.sliding_window') ?? 0
  const config: DecoderConfig = {
    family: family === 'gemma3' ? 'gemma3_text' : family,
    layerCount: reader.size('block_count'),
    hiddenSize,
    headCount,
    kvHeadCount: reader.size('attention.head_count_kv', headCount),
    headSize,
    mlpSize: reader.size('feed_forward_length'),
    vocabularySize: facts.embeddingRows ?? reader.size('vocab_size'),
    contextLength:
      window === 0 || family === 'gemma3'
        ? trainedLength
        : Math.min(trainedLength, reader.size('attention.sliding_window')),
    normEpsilon: reader.positive('attention.layer_norm_rms_epsilon'),
    rotary: rotaryOf(reader, headSize, facts.ropeFrequencyDivisors),
    activation: 'silu',
    hasQkvBias: facts.hasTensor('model.layers.0.self_attn.q_proj.bias'),
    hasOutputBias: facts.hasTensor('model.layers.0.self_attn.o_proj.bias'),
    hasMlpBias: facts.hasTensor('model.layers.0.mlp.up_proj.bias'),
    hasQkNorm: family === 'qwen3' || family === 'gemma3',
    isEmbeddingTied: !facts.hasTensor('lm_head.weight'),
    ...traitsOf(family, reader),
  }
  assertConsistent(config, WHAT)
  return config
}

function traitsOf(family: string, reader: ConfigReader): Partial<DecoderConfig> {
  const kinds = (period: number, last: LayerAttention, others: LayerAttention): readonly LayerAttention[] =>
    Array.from({ length: reader.size('block_count') }, (_, layer) => ((layer + 1) % period === 0 ? last : others))
  if (family === 'smollm3') return { layerAttention: kinds(SMOLLM3_PERIOD, 'unrotated', 'full') }
  if (family !== 'gemma3') return {}
  for (const key of ['attn_logit_softcapping', 'final_logit_softcapping']) {
    if (reader.raw(key) !== null) throw unsupportedModel(WHAT, `has ${key}, expected none`)
  }
  return {
    activation: 'gelu_tanh',
    layerAttention: kinds(reader.size('attention.sliding_window_pattern', GEMMA3_PERIOD), 'full', 'sliding'),
    slidingWindow: reader.size('attention.sliding_window'),
    slidingRotary: {
      theta: reader.positive('rope.freq_base_swa', GEMMA3_SLIDING_THETA),
      llama3Scaling: null,
      linearFactor: 1,
    },
    hasPostNorms: true,
    embeddingScale: Math.sqrt(reader.size('embedding_length')),
  }
}

function familyOf(metadata: ReadonlyMap<string, unknown>): string {
  const family = metadata.get('general.architecture')
  if (typeof family === 'string' && GGUF_FAMILIES.includes(family)) return family
  const given = typeof family === 'string' ? `"${family}"` : 'nothing'
  throw new WeightsError(
    'unknown_architecture',
    `${WHAT} has general.architecture ${given}, expected one of ${GGUF_FAMILIES.join(', ')}`,
  )
}

function refuseUnsupported(reader: ConfigReader): void {
  const experts = reader.raw('expert_count') ?? 0
  if (experts !== 0) throw unsupportedModel(WHAT, `has ${String(experts)} experts, expected a dense model`)
  for (const key of ['attention.head_count', 'attention.head_count_kv', 'feed_forward_length']) {
    if (Array.isArray(reader.raw(key))) throw unsupportedModel(WHAT, `has ${key} by layer, expected one for all`)
  }
}

function rotaryOf(reader: ConfigReader, headSize: number, divisors: Float32Array | null): RotaryOptions {
  const theta = reader.positive('rope.freq_base', 10_000)
  const type = reader.text('rope.scaling.type') ?? (reader.raw('rope.scale_linear') === null ? 'none' : 'linear')
  switch (type) {
    case 'none':
      return {
        theta,
        llama3Scaling: divisors === null ? null : findLlama3Scaling(divisors, theta, headSize),
        linearFactor: 1,
      }
    case 'linear': {
      if (divisors !== null) throw unsupportedModel(WHAT, 'has linear rope scaling and rope_freqs together')
      const key = reader.raw('rope.scaling.factor') === null ? 'rope.scale_linear' : 'rope.scaling.factor'
      return { theta, llama3Scaling: null, linearFactor: reader.positive(key) }
    }
    case 'yarn': {
      if (divisors !== null) throw unsupportedModel(WHAT, 'has yarn rope scaling and rope_freqs together')
      const factor = reader.positive('rope.scaling.factor')
      const yarn = {
        factor,
        originalContextLength: reader.size('rope.scaling.original_context_length', reader.size('context_length')),
        betaFast: reader.positive('rope.scaling.yarn_beta_fast', 32),
        betaSlow: reader.positive('rope.scaling.yarn_beta_slow', 1),
        isTruncated: true,
      }
      // llama.cpp multiplies its own factor with the one of the file
      const attentionFactor =
        yarnAttentionFactor(factor) *
        reader.positive('rope.scaling.yarn_attn_factor', reader.positive('rope.scaling.attn_factor', 1))
      return { theta, llama3Scaling: null, linearFactor: 1, yarn, attentionFactor }
    }
    default:
      throw unsupportedModel(WHAT, `has rope scaling "${type}", expected none, linear or yarn`)
  }
}

/** The parameters whose divisors are the stored ones; the largest divisor is the factor. */
function findLlama3Scaling(divisors: Float32Array, theta: number, headSize: number): RotaryOptions['llama3Scaling'] {
  if (divisors.length !== headSize / 2) {
    throw invalidConfig(WHAT, 'rope_freqs.weight', divisors.length, `${headSize / 2} values`)
  }
  const factor = divisors.reduce((largest, divisor) => Math.max(largest, divisor), 0)
  if (divisors.every((divisor) => divisor === 1)) return null
  const scaling = { ...LLAMA3, factor }
  const isMatch = divisors.every((divisor, i) => {
    const expected = llama3Divisor(theta ** ((-2 * i) / headSize), scaling)
    return Math.abs(divisor - expected) <= 1e-4 * expected
  })
  if (!isMatch) throw unsupportedModel(WHAT, 'has rope_freqs.weight that is not the scaling of Llama 3')
  return scaling
}
