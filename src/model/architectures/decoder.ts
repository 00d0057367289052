/**
 * The one decoder: walks a `DecoderConfig` and calls kernels. Step, score and train graphs are this walk with other kernels.
 *
 * Pre-norm transformer: h += attention(norm(h)); h += mlp(norm(h)); norm(h). It does not know how a linear layer is
 * stored, how attention sees the past, or whether anything is trained.
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
  /** First norm of the walk, which has no residual to add. */
  norm(hidden: Value, norm: NormName): Value
  /** residual + delta and its norm, together because runtimes fuse them. */
  addAndNorm(residual: Value, delta: Value, norm: NormName): { readonly residual: Value; readonly normed: Value }
  /** A joined linear layer with its bias and adapters. */
  linear(input: Value, layer: number, projection: JoinedProjection): Value
  /** Query/key norm, rotation and attention on the joined qkv; returns [.., T, H*D]. */
  attention(qkv: Value, layer: number): Value
  /** silu(gate x) * up x, the first half of the MLP; returns [.., T, F]. Kernels decide whether gate and up are one product. */
  gatedLinear(input: Value, layer: number): Value
}

/** Which norm weight: of a layer's attention or MLP, or the last one. */
export type NormName =
  | { readonly kind: 'attention'; readonly layer: number }
  | { readonly kind: 'mlp'; readonly layer: number }
  | { readonly kind: 'final' }

/**
 * Builds the decoder up to the last norm.
 *
 * @returns the normed hidden states [.., T, E], ready for the head
 */
export function buildDecoder(config: DecoderConfig, kernels: DecoderKernels): Value {
  let residual = kernels.embed()
  let normed = kernels.norm(residual, { kind: 'attention', layer: 0 })
  for (let layer = 0; layer < config.layerCount; layer++) {
    const qkv = kernels.linear(normed, layer, 'qkv')
    const attended = kernels.linear(kernels.attention(qkv, layer), layer, 'o')
    ;({ residual, normed } = kernels.addAndNorm(residual, attended, { kind: 'mlp', layer }))
    const fed = kernels.linear(kernels.gatedLinear(normed, layer), layer, 'down')
    const next: NormName = layer + 1 < config.layerCount ? { kind: 'attention', layer: layer + 1 } : { kind: 'final' }
    ;({ residual, normed } = kernels.addAndNorm(residual, fed, next))
  }
  return normed
}
