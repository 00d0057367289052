/**
 * The one decoder: walks a `DecoderConfig` and calls kernels. Step, score and train graphs are this walk with other kernels.
 *
 * Pre-norm transformer: h += attention(norm(h)); h += mlp(norm(h)); norm(h). Gemma 3 also norms what is added and scales the
 * embeddings. It does not know how a linear layer is stored, how attention sees the past, or whether anything is trained.
 * Source: Llama 2 (arXiv:2307.09288), section 2.2, and the families that share its structure.
 */
import type { Value } from '#numerics/graph/graph.js'
import type { DecoderConfig } from './decoder-config.js'

/** Linear layers of one block, joined where they share an input. */
export type JoinedProjection = 'qkv' | 'o' | 'gate_up' | 'down'

/** The operations a decoder is made of; hidden states are [.., T, E] in whatever layout the kernels keep. */
export interface DecoderKernels {
  /** Token embeddings of the graph's own ids input. */
  embed(): Value
  /** A value times a number. */
  scale(value: Value, factor: number): Value
  /** A norm without a residual to add: the first of the walk, and those of what is added. */
  norm(hidden: Value, norm: NormName): Value
  /** residual + delta and its norm, together because runtimes fuse them. */
  addAndNorm(residual: Value, delta: Value, norm: NormName): { readonly residual: Value; readonly normed: Value }
  /** A joined linear layer with its bias and adapters. */
  linear(input: Value, layer: number, projection: JoinedProjection): Value
  /** Query/key norm, rotation and attention on the joined qkv; returns [.., T, H*D]. */
  attention(qkv: Value, layer: number): Value
  /** act(gate x) * up x, the first half of the MLP; returns [.., T, F]. Kernels decide whether gate and up are one product. */
  gatedLinear(input: Value, layer: number): Value
  /** The rows of a value that anybody reads behind the last layer's attention, which alone needs the others; absent: all. */
  readRows?(value: Value): Value
}

/** Which norm weight: of a layer's attention or MLP, or the last one. */
export type NormName =
  | { readonly kind: 'attention' | 'post_attention' | 'mlp' | 'post_mlp'; readonly layer: number }
  | { readonly kind: 'final' }

/**
 * Builds the decoder up to the last norm.
 *
 * @returns the normed hidden states [.., T, E], or those of the rows that are read, ready for the head
 */
export function buildDecoder(config: DecoderConfig, kernels: DecoderKernels): Value {
  const { embeddingScale = 1, hasPostNorms = false } = config
  const embedded = kernels.embed()
  let residual = embeddingScale === 1 ? embedded : kernels.scale(embedded, embeddingScale)
  let normed = kernels.norm(residual, { kind: 'attention', layer: 0 })
  for (let layer = 0; layer < config.layerCount; layer++) {
    const isLast = layer + 1 === config.layerCount
    const read = (value: Value): Value => (isLast ? (kernels.readRows?.(value) ?? value) : value)
    const heads = read(kernels.attention(kernels.linear(normed, layer, 'qkv'), layer))
    const attended = posted(kernels.linear(heads, layer, 'o'), 'post_attention', layer)
    residual = read(residual)
    ;({ residual, normed } = kernels.addAndNorm(residual, attended, { kind: 'mlp', layer }))
    const fed = posted(kernels.linear(kernels.gatedLinear(normed, layer), layer, 'down'), 'post_mlp', layer)
    const next: NormName = isLast ? { kind: 'final' } : { kind: 'attention', layer: layer + 1 }
    ;({ residual, normed } = kernels.addAndNorm(residual, fed, next))
  }
  return normed

  function posted(delta: Value, kind: 'post_attention' | 'post_mlp', layer: number): Value {
    return hasPostNorms ? kernels.norm(delta, { kind, layer }) : delta
  }
}
