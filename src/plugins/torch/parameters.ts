/**
 * The trainable tensors of a decoder as row graphs name them (projections joined), and how they map to a Hugging Face file.
 */

import {
  type DecoderConfig,
  layerNorms,
  type Projection,
  projectionPath,
  projectionShape,
} from '#model/architectures/decoder-config.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** What a parameter is, which decides its initial values and whether it decays. */
type ParameterKind = 'embedding' | 'projection' | 'residual_projection' | 'norm' | 'bias'

/** One trainable tensor. */
export interface DecoderParameter {
  /** Canonical name, for example `layers.0.qkv.weight`. */
  readonly name: string
  readonly shape: readonly number[]
  readonly kind: ParameterKind
  /** Hugging Face names of its rows from top to bottom, each with its number of rows. */
  readonly parts: readonly { readonly name: string; readonly rows: number }[]
}

/** All trainable tensors of a decoder, embedding first, head (unless tied) last. */
export function decoderParameters(config: DecoderConfig): readonly DecoderParameter[] {
  const { hiddenSize, vocabularySize, headSize, layerCount } = config
  const whole = (
    name: string,
    hfName: string,
    { shape, kind }: { shape: readonly [number, ...number[]]; kind: ParameterKind },
  ): DecoderParameter => ({ name, shape, kind, parts: [{ name: hfName, rows: shape[0] }] })
  const norm = (name: string, hfName: string, size: number): DecoderParameter =>
    whole(name, hfName, { shape: [size], kind: 'norm' })
  const matrix = { shape: [vocabularySize, hiddenSize], kind: 'embedding' } as const
  const layers = Array.from({ length: layerCount }, (_, layer) => {
    const at = `layers.${layer}`
    const hf = `model.layers.${layer}`
    const headNorms = config.hasQkNorm
      ? [
          norm(`${at}.q_norm`, `${hf}.self_attn.q_norm.weight`, headSize),
          norm(`${at}.k_norm`, `${hf}.self_attn.k_norm.weight`, headSize),
        ]
      : []
    const norms = new Map(
      layerNorms(config).map(([name, hfName]) => [name, norm(`${at}.${name}`, `${hf}.${hfName}.weight`, hiddenSize)]),
    )
    const own = (name: string): DecoderParameter[] => [norms.get(name)].filter((known) => known !== undefined)
    return [
      ...own('attention_norm'),
      ...linear(config, layer, { name: 'qkv', of: ['q_proj', 'k_proj', 'v_proj'], hasBias: config.hasQkvBias }),
      ...headNorms,
      ...linear(config, layer, { name: 'o', of: ['o_proj'], hasBias: config.hasOutputBias }),
      ...own('post_attention_norm'),
      ...own('mlp_norm'),
      ...linear(config, layer, { name: 'gate_up', of: ['gate_proj', 'up_proj'], hasBias: config.hasMlpBias }),
      ...linear(config, layer, { name: 'down', of: ['down_proj'], hasBias: config.hasMlpBias }),
      ...own('post_mlp_norm'),
    ]
  }).flat()
  return [
    whole('embedding', 'model.embed_tokens.weight', matrix),
    ...layers,
    norm('final_norm', 'model.norm.weight', hiddenSize),
    ...(config.isEmbeddingTied ? [] : [whole('head', 'lm_head.weight', matrix)]),
  ]
}

/** Trained weights under their Hugging Face names, projections separate. Shares memory with `weights`. */
export function toHfTensors(
  config: DecoderConfig,
  weights: ReadonlyMap<string, Float32Array>,
): ReadonlyMap<string, HostTensor<'float32'>> {
  const tensors = new Map<string, HostTensor<'float32'>>()
  for (const { name, shape, parts } of decoderParameters(config)) {
    const data = weights.get(name)
    if (data === undefined) throw new Error(`no weights for parameter "${name}"`)
    const [, ...inner] = shape
    const width = inner.reduce((product, size) => product * size, 1)
    let row = 0
    for (const part of parts) {
      const end = row + part.rows
      tensors.set(part.name, float32Tensor(data.subarray(row * width, end * width), [part.rows, ...inner]))
      row = end
    }
  }
  return tensors
}

/** Weight and bias of a joined linear layer. */
function linear(
  config: DecoderConfig,
  layer: number,
  joined: { readonly name: string; readonly of: readonly Projection[]; readonly hasBias: boolean },
): DecoderParameter[] {
  const shapes = joined.of.map((projection) => projectionShape(config, projection))
  const rows = shapes.reduce((sum, [outputs]) => sum + outputs, 0)
  const inputs = shapes[0]?.[1] ?? 0
  const at = `layers.${layer}.${joined.name}`
  const parts = (suffix: string): DecoderParameter['parts'] =>
    joined.of.map((projection, index) => ({
      name: `${projectionPath(layer, projection)}.${suffix}`,
      rows: shapes[index]?.[0] ?? 0,
    }))
  const isResidual = joined.name === 'o' || joined.name === 'down'
  const kind = isResidual ? 'residual_projection' : 'projection'
  const weight: DecoderParameter = { name: `${at}.weight`, shape: [rows, inputs], kind, parts: parts('weight') }
  if (!joined.hasBias) return [weight]
  return [weight, { name: `${at}.bias`, shape: [rows], kind: 'bias', parts: parts('bias') }]
}
