/**
 * The decoder's operations on whole rows, differentiable: what the train and score graphs are built from.
 *
 * Hidden states are flat [B*T, E]. Base weights are frozen and used as stored ([out, in]), so that the forward product and the
 * gradient through it share one copy; adapters are graph inputs.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import type { AttentionMask } from '#numerics/graph/ops/attention.js'
import { add, mul } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { rmsNorm } from '#numerics/graph/ops/normalize.js'
import { reshape } from '#numerics/graph/ops/shape.js'
import { activate } from '#numerics/nn/activation.js'
import { dropout } from '#numerics/nn/dropout.js'
import { addLora, type LoraPair, type LoraPart } from '#numerics/nn/lora.js'
import { packedAttention } from '#numerics/nn/packed-attention.js'
import type { DecoderKernels, JoinedProjection, NormName } from './decoder.js'
import {
  attentionOf,
  type DecoderConfig,
  type Projection,
  projectionPath,
  projectionShape,
  scoreScaleOf,
} from './decoder-config.js'
import { type FrozenIntegerWeight, frozenIntegerLinear } from './integer/frozen-integer.js'

/** Inputs of a row graph, all graph values. */
export interface RowInputs {
  /** Token ids, int64 [B, T]. */
  readonly tokens: Value
  /** Each token's position in its own sequence, int64 [B, T]. */
  readonly positions: Value
  /** What each token sees. */
  readonly mask: AttentionMask
  /** Rotary tables, float32 [positions, D/2]. */
  readonly cos: Value
  readonly sin: Value
  /** The same for layers with a window, where the decoder has such. */
  readonly sliding?: { readonly mask: AttentionMask; readonly cos: Value; readonly sin: Value }
}

/** Where the kernels find weights. */
export interface RowWeights {
  /** A frozen tensor by its canonical name (`layers.0.qkv.weight`, `embedding`); the same value at every call. */
  readonly base: (name: string) => Value
  /** The first or second half of the rows of such a tensor: gate and up of `gate_up`. */
  readonly half: (name: string, which: 0 | 1) => Value
  /** A frozen layer's weight as integers, by the name of its float32 weight; undefined where the product is float32. */
  readonly integers?: ((name: string) => FrozenIntegerWeight | undefined) | undefined
  /** Adapter of a projection by its PEFT module path; undefined where there is none. */
  readonly adapter: (modulePath: string) => LoraPair | undefined
  /** Share of the adapters' inputs that are left out, by masks made of graph inputs (`dropoutNames`); absent: none. */
  readonly dropout?: number | undefined
}

/** Names of the random numbers that the mask of a joined layer's input is made of: of each row [B*T], of each column [in]. */
export function dropoutNames(
  layer: number,
  joined: JoinedProjection,
): { readonly rows: string; readonly columns: string } {
  return { rows: `dropout.${layer}.${joined}.rows`, columns: `dropout.${layer}.${joined}.columns` }
}

/** Projections that are computed from one input. */
export const JOINED: Readonly<Record<JoinedProjection, readonly Projection[]>> = {
  qkv: ['q_proj', 'k_proj', 'v_proj'],
  o: ['o_proj'],
  gate_up: ['gate_proj', 'up_proj'],
  down: ['down_proj'],
}

/** Builds the operations; call `buildDecoder` with them inside the same builder. */
export function createTrainKernels(
  g: GraphBuilder,
  config: DecoderConfig,
  options: { readonly inputs: RowInputs; readonly weights: RowWeights },
): DecoderKernels {
  const { inputs, weights } = options
  const norm = (x: Value, name: string): Value => rmsNorm(g, x, weights.base(name), config.normEpsilon)
  const product = (
    input: Value,
    read: (part: 'weight' | 'bias') => Value,
    layer: {
      readonly hasBias: boolean
      readonly parts: readonly LoraPart[]
      readonly integer: FrozenIntegerWeight | undefined
      /** What the adapters are given of the input. */
      readonly dropped: Value
    },
  ): Value => {
    const { integer, hasBias } = layer
    let y: Value
    if (integer === undefined)
      y = gemm(g, input, read('weight'), { transB: true, ...(hasBias ? { c: read('bias') } : {}) })
    else {
      y = frozenIntegerLinear(g, input, integer)
      if (hasBias) y = add(g, y, read('bias'))
    }
    return addLora(g, layer.dropped, y, layer.parts)
  }
  const dropInputs = (input: Value, layer: number, joined: JoinedProjection): Value => {
    const { dropout: share } = weights
    if (share === undefined || adapterParts(config, weights, layer, joined).every(({ pair }) => pair === null))
      return input
    const names = dropoutNames(layer, joined)
    const columns = projectionShape(config, JOINED[joined][0] as Projection)[1]
    const mask = {
      rows: g.input(names.rows, 'float32', ['B*T']),
      columns: g.input(names.columns, 'float32', [columns]),
    }
    return dropout(g, input, { ...mask, share })
  }
  return {
    embed: () => g.scope('embed', () => gather(g, weights.base('embedding'), reshape(g, inputs.tokens, [-1]), 0)),
    scale: (value, factor) => g.scope('embed', () => mul(g, value, g.scalar(factor))),
    norm: (hidden, name) => g.scope(scopeOf(name), () => norm(hidden, normTensor(name))),
    addAndNorm: (residual, delta, name) => {
      // Part of the layer that ends here: what enters the next one is then one tensor, not two.
      const sum = g.scope(`layers.${layerBefore(name, config)}/residual`, () => add(g, residual, delta))
      return { residual: sum, normed: g.scope(scopeOf(name), () => norm(sum, normTensor(name))) }
    },
    linear: (input, layer, projection) =>
      g.scope(`layers.${layer}/${projection}`, () => {
        const name = `layers.${layer}.${projection}`
        return product(input, (part) => weights.base(`${name}.${part}`), {
          hasBias: hasBias(config, projection),
          parts: adapterParts(config, weights, layer, projection),
          integer: weights.integers?.(name),
          dropped: dropInputs(input, layer, projection),
        })
      }),
    attention: (qkv, layer) =>
      g.scope(`layers.${layer}/attention`, () =>
        packedAttention(g, qkv, {
          headCount: config.headCount,
          kvHeadCount: config.kvHeadCount,
          headSize: config.headSize,
          positions: inputs.positions,
          mask: inputs.mask,
          cos: inputs.cos,
          sin: inputs.sin,
          ...(attentionOf(config, layer) === 'sliding' ? inputs.sliding : {}),
          isRotated: attentionOf(config, layer) !== 'unrotated',
          scale: scoreScaleOf(config),
          normalizeHeads: config.hasQkNorm
            ? (heads, kind) => norm(heads, `layers.${layer}.${kind === 'query' ? 'q_norm' : 'k_norm'}`)
            : undefined,
        }),
      ),
    // Two products, not one: splitting the output, and joining its gradients again, costs more than computing the halves apart.
    gatedLinear: (input, layer) => {
      const parts = adapterParts(config, weights, layer, 'gate_up')
      const half = (which: 0 | 1, dropped: Value): Value =>
        product(input, (part) => weights.half(`layers.${layer}.gate_up.${part}`, which), {
          hasBias: config.hasMlpBias,
          parts: parts.slice(which, which + 1),
          integer: weights.integers?.(`layers.${layer}.gate_up.${which}`),
          dropped,
        })
      const [gate, up] = g.scope(`layers.${layer}/gate_up`, () => {
        const dropped = dropInputs(input, layer, 'gate_up')
        return [half(0, dropped), half(1, dropped)] as const
      })
      return g.scope(`layers.${layer}/activation`, () => mul(g, activate(g, gate, config.activation), up))
    },
  }
}

/** The projections of a joined layer with their adapters. */
function adapterParts(
  config: DecoderConfig,
  weights: RowWeights,
  layer: number,
  joined: JoinedProjection,
): readonly LoraPart[] {
  return JOINED[joined].map((projection) => ({
    pair: weights.adapter(projectionPath(layer, projection)) ?? null,
    outputSize: projectionShape(config, projection)[0],
  }))
}

function hasBias(config: DecoderConfig, projection: JoinedProjection): boolean {
  if (projection === 'qkv') return config.hasQkvBias
  return projection === 'o' ? config.hasOutputBias : config.hasMlpBias
}

/** The layer that made what is added before a norm. */
function layerBefore(name: NormName, { layerCount }: DecoderConfig): number {
  if (name.kind === 'final') return layerCount - 1
  return name.kind === 'attention' ? name.layer - 1 : name.layer
}

function normTensor(name: NormName): string {
  return name.kind === 'final' ? 'final_norm' : `layers.${name.layer}.${name.kind}_norm`
}

function scopeOf(name: NormName): string {
  return name.kind === 'final' ? 'final_norm' : `layers.${name.layer}/${name.kind}_norm`
}
