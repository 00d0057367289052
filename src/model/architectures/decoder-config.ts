/**
 * A decoder described as data: every supported family is a value of `DecoderConfig`, none is code.
 *
 * `hf-config.ts` and `gguf-config.ts` map a model's own metadata to it; `decoder.ts` walks it.
 */

import { WeightsError } from '#base/errors/errors.js'
import type { RotaryOptions } from '#numerics/nn/rotary-embedding.js'

/** More layers than any decoder we serve; a larger number is a lie. */
const MAX_LAYERS = 1024

/** Sizes and switches of one decoder. The letters are those of every shape comment (B batch row, T position, L layers, …). */
export interface DecoderConfig {
  /** Family as the model names it, for messages: `llama`, `qwen2`, `qwen3`, `mistral`, `smollm3`, `gemma3_text`. */
  readonly family: string
  readonly layerCount: number // L
  readonly hiddenSize: number // E
  readonly headCount: number // H, query heads
  readonly kvHeadCount: number // K
  readonly headSize: number // D
  readonly mlpSize: number // F
  readonly vocabularySize: number // V, rows of the embedding
  readonly contextLength: number
  readonly normEpsilon: number
  readonly rotary: RotaryOptions
  readonly activation: 'silu' | 'gelu_tanh'
  /** Biases on q, k, v (Qwen2), on o, and on the MLP (Llama's `attention_bias`, `mlp_bias`). */
  readonly hasQkvBias: boolean
  readonly hasOutputBias: boolean
  readonly hasMlpBias: boolean
  /** RMS norm on each query and key head before rotation (Qwen3). */
  readonly hasQkNorm: boolean
  /** Whether the head is the embedding matrix. */
  readonly isEmbeddingTied: boolean
  /** How each layer attends; default every layer `full`. */
  readonly layerAttention?: readonly LayerAttention[]
  /** Tokens that a sliding layer sees, its own included. Required with one. */
  readonly slidingWindow?: number
  /** Rotation of sliding layers; default that of the others. */
  readonly slidingRotary?: RotaryOptions
  /** Factor of the attention scores without that of the rotation; default 1 / sqrt(D). */
  readonly scoreScale?: number
  /** Norms of what attention and MLP add, before it is added (Gemma 3); default none. */
  readonly hasPostNorms?: boolean
  /** Token embeddings are multiplied by this; default 1. Gemma: sqrt(E). */
  readonly embeddingScale?: number
  /** Stored norm weights are smaller by this than what is multiplied with; default 0. Gemma in Hugging Face's form: 1. */
  readonly normOffset?: number
}

/** A layer sees all earlier tokens, only the last ones, or all of them without a rotation (SmolLM3). */
export type LayerAttention = 'full' | 'sliding' | 'unrotated'

/** How a layer attends. */
export function attentionOf(config: DecoderConfig, layer: number): LayerAttention {
  return config.layerAttention?.[layer] ?? 'full'
}

/** Whether any layer has a window. */
export function hasSlidingLayers(config: DecoderConfig): boolean {
  return config.layerAttention?.includes('sliding') ?? false
}

/** Factor of the attention scores, that of the rotation included. */
export function scoreScaleOf(config: DecoderConfig): number {
  // cos and sin of queries and of keys have the factor, so their products have it twice
  return (config.scoreScale ?? 1 / Math.sqrt(config.headSize)) * (config.rotary.attentionFactor ?? 1) ** 2
}

/** Canonical names of a layer's norms over the hidden size, each with its Hugging Face name. */
export function layerNorms({ hasPostNorms = false }: DecoderConfig): readonly (readonly [string, string])[] {
  if (!hasPostNorms) {
    return [
      ['attention_norm', 'input_layernorm'],
      ['mlp_norm', 'post_attention_layernorm'],
    ]
  }
  return [
    ['attention_norm', 'input_layernorm'],
    ['post_attention_norm', 'post_attention_layernorm'],
    ['mlp_norm', 'pre_feedforward_layernorm'],
    ['post_mlp_norm', 'post_feedforward_layernorm'],
  ]
}

/** The seven projections that adapters attach to, in PEFT's names. */
export const PROJECTIONS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const
export type Projection = (typeof PROJECTIONS)[number]

/** [output size, input size] of a projection's weight. */
export function projectionShape(config: DecoderConfig, projection: Projection): readonly [number, number] {
  const { hiddenSize, mlpSize, headSize } = config
  const querySize = config.headCount * headSize
  const kvSize = config.kvHeadCount * headSize
  switch (projection) {
    case 'q_proj':
      return [querySize, hiddenSize]
    case 'k_proj':
    case 'v_proj':
      return [kvSize, hiddenSize]
    case 'o_proj':
      return [hiddenSize, querySize]
    case 'gate_proj':
    case 'up_proj':
      return [mlpSize, hiddenSize]
    case 'down_proj':
      return [hiddenSize, mlpSize]
  }
}

/** PEFT's module path of a projection, for example `model.layers.3.self_attn.q_proj`. */
export function projectionPath(layer: number, projection: Projection): string {
  const block =
    projection === 'gate_proj' || projection === 'up_proj' || projection === 'down_proj' ? 'mlp' : 'self_attn'
  return `model.layers.${layer}.${block}.${projection}`
}

/** Parameters of the whole decoder, embedding counted once. */
export function parameterCount(config: DecoderConfig): number {
  const { layerCount, hiddenSize, vocabularySize } = config
  let perLayer = layerNorms(config).length * hiddenSize + (config.hasQkNorm ? 2 * config.headSize : 0)
  for (const projection of PROJECTIONS) {
    const [rows, columns] = projectionShape(config, projection)
    perLayer += rows * columns
  }
  if (config.hasQkvBias) perLayer += (config.headCount + 2 * config.kvHeadCount) * config.headSize
  if (config.hasOutputBias) perLayer += hiddenSize
  if (config.hasMlpBias) perLayer += 2 * config.mlpSize + hiddenSize
  const embeddings = vocabularySize * hiddenSize * (config.isEmbeddingTied ? 1 : 2)
  return layerCount * perLayer + embeddings + hiddenSize
}

/** Every adaptable projection of the decoder whose name is in `targets`, with its sizes; layer by layer. */
export function adapterModules(
  config: DecoderConfig,
  targets: readonly Projection[] = PROJECTIONS,
): readonly { readonly path: string; readonly outputSize: number; readonly inputSize: number }[] {
  return Array.from({ length: config.layerCount }, (_, layer) =>
    targets.map((projection) => {
      const [outputSize, inputSize] = projectionShape(config, projection)
      return { path: projectionPath(layer, projection), outputSize, inputSize }
    }),
  ).flat()
}

/**
 * Checks what the walk relies on: whole heads, even head size, whole query groups.
 *
 * @param what names the description in messages
 * @throws {WeightsError} `invalid_config`
 */
export function assertConsistent(config: DecoderConfig, what: string): void {
  const { headCount, kvHeadCount, headSize, layerCount } = config
  const problem =
    !Number.isInteger(headSize) || headSize % 2 !== 0
      ? `head size ${headSize}, expected an even number`
      : headCount % kvHeadCount !== 0
        ? `${headCount} query heads and ${kvHeadCount} key/value heads, expected a multiple`
        : layerCount > MAX_LAYERS
          ? `${layerCount} layers, expected at most ${MAX_LAYERS}`
          : config.layerAttention !== undefined && config.layerAttention.length !== layerCount
            ? `${config.layerAttention.length} kinds of attention for ${layerCount} layers`
            : hasMixedFactors(config)
              ? 'a rotation with an attention factor in some of its layers only, expected the same in all'
              : null
  if (problem !== null) throw new WeightsError('invalid_config', `${what} has ${problem}`)
}

/** The factor of a rotation is a factor of all scores here, so every layer must have the same one. */
function hasMixedFactors({ rotary, slidingRotary = rotary, layerAttention = [] }: DecoderConfig): boolean {
  const factor = rotary.attentionFactor ?? 1
  return (slidingRotary.attentionFactor ?? 1) !== factor || (factor !== 1 && layerAttention.includes('unrotated'))
}
