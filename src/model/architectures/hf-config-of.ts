/**
 * A `DecoderConfig` written as a transformers configuration: the reverse of `hf-config.ts`.
 *
 * Leaves out the class name and the rotary scaling: an export adds both, and programs that compute with a prepared model use its own
 * stored frequencies. Source: the configuration classes of transformers 4 and 5.
 */
import type { JsonObject } from '#base/util/json.js'
import { attentionOf, type DecoderConfig, scoreScaleOf } from './decoder-config.js'

/** @param contextLength tokens the model was trained for */
export function hfConfigOf(config: DecoderConfig, contextLength: number): JsonObject {
  return {
    model_type: config.family,
    hidden_size: config.hiddenSize,
    num_hidden_layers: config.layerCount,
    num_attention_heads: config.headCount,
    num_key_value_heads: config.kvHeadCount,
    head_dim: config.headSize,
    intermediate_size: config.mlpSize,
    vocab_size: config.vocabularySize,
    max_position_embeddings: contextLength,
    rms_norm_eps: roundFloat32(config.normEpsilon),
    rope_theta: config.rotary.theta,
    ...(config.activation === 'silu' ? { hidden_act: 'silu' } : { hidden_activation: 'gelu_pytorch_tanh' }),
    ...layerFields(config),
    tie_word_embeddings: config.isEmbeddingTied,
    attention_bias: config.family === 'qwen2' ? false : config.hasQkvBias,
    ...(config.family === 'llama' ? { mlp_bias: config.hasMlpBias } : {}),
    use_cache: true,
  }
}

/** Each layer's kind of attention in transformers' words; an unrotated one sees what a full one sees. */
export function hfLayerTypes(config: DecoderConfig): readonly ('full_attention' | 'sliding_attention')[] {
  return Array.from({ length: config.layerCount }, (_, layer) =>
    attentionOf(config, layer) === 'sliding' ? 'sliding_attention' : 'full_attention',
  )
}

/** How layers differ: windows of Gemma 3, rotation of SmolLM3. */
function layerFields(config: DecoderConfig): JsonObject {
  const { family, layerAttention = [], slidingWindow, slidingRotary } = config
  if (family === 'smollm3') {
    return { no_rope_layers: layerAttention.map((kind) => (kind === 'unrotated' ? 0 : 1)), pad_token_id: null }
  }
  if (family !== 'gemma3_text' || slidingWindow === undefined) return {}
  return {
    layer_types: hfLayerTypes(config),
    sliding_window: slidingWindow,
    rope_local_base_freq: slidingRotary?.theta ?? config.rotary.theta,
    query_pre_attn_scalar: Math.round(scoreScaleOf(config) ** -2),
  }
}

/** The decimal a float32 was written from: 1e-5 instead of 0.000009999999747378752. */
function roundFloat32(value: number): number {
  return Number(value.toPrecision(7))
}
