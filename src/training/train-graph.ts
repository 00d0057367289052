/**
 * The train, score and logits graphs of a decoder: rows and adapters in, losses and adapter gradients out.
 *
 * The backward pass is part of the graph. The loss is differentiated to the log-probabilities, the head's own rule takes that
 * to the hidden states (`nn/fused-head.ts`), and autodiff from there to the adapters.
 */
import { buildDecoder } from '#architectures/decoder.js'
import { type DecoderConfig, PROJECTIONS, projectionPath, projectionShape } from '#architectures/decoder-config.js'
import type { PreparedTensor } from '#architectures/tensor-file.js'
import { createTrainKernels } from '#architectures/train-kernels.js'
import { backward } from '#autodiff/backward.js'
import { blocksByScope } from '#autodiff/recompute.js'
import { GraphBuilder } from '#graph/builder.js'
import type { Graph, Value } from '#graph/graph.js'
import { gemm } from '#graph/ops/matmul.js'
import { crossEntropy } from '#nn/cross-entropy.js'
import { fusedHead, type HeadOutputs, headGradient } from '#nn/fused-head.js'
import type { LoraPair } from '#nn/lora.js'
import { type PolicyLossOptions, policyLoss } from '#nn/policy-loss.js'

/** The model a row graph computes. */
export interface RowModel {
  readonly config: DecoderConfig
  /** Float32 tensors by canonical name. */
  readonly tensors: ReadonlyMap<string, PreparedTensor>
  /** Shape of the adapter; null for a graph of the base model alone. */
  readonly adapter: { readonly rank: number; readonly alpha: number } | null
}

/** Which loss a train graph has. */
export type LossKind = { readonly kind: 'sft' } | { readonly kind: 'rl'; readonly options: PolicyLossOptions }

/** Names of adapter tensors in graphs, checkpoints and optimizer states: PEFT's without its prefix. */
export function adapterTensorNames(modulePath: string): { readonly a: string; readonly b: string } {
  return { a: `${modulePath}.lora_A.weight`, b: `${modulePath}.lora_B.weight` }
}

/** Name of the output that carries an adapter tensor's gradient. */
export function gradientName(tensorName: string): string {
  return `gradient:${tensorName}`
}

/**
 * Builds the train graph.
 *
 * Inputs: those of `toRowBatch`, rotary tables `cos` and `sin`, the adapter tensors, `weight` [N], `denominator` []; for RL
 * also `old_logp`, `advantage`, `mask` [N] and, where the options need them, `segments` [N, G], `reference_logp`,
 * `sampler_logp`. Outputs: `loss` [], `logp` and `entropy` [N], for RL `ratio` [N], and one gradient per adapter tensor.
 *
 * @param options.isRecomputed layers are computed again in the backward pass instead of kept; same numbers. Default false
 */
export function buildTrainGraph(
  model: RowModel,
  loss: LossKind,
  options: { readonly isRecomputed?: boolean } = {},
): Graph {
  const g = new GraphBuilder('train')
  const decoder = emitDecoder(g, model)
  const head = emitHead(g, decoder, true)
  if (head.slope === null) throw new Error('the train graph needs the slope of the head')
  const total = emitLoss(g, head.logp, loss)
  const one = g.scalar(1)
  const [logpGradient] = backward(g, [{ value: total.loss, gradient: one }], [head.logp])
  if (logpGradient === undefined) throw new Error('the loss does not depend on the log-probabilities')
  const rowOfPosition = g.input('row_of_position', 'int64', ['B*T'])
  const hiddenGradient = headGradient(g, { logpGradient, slope: head.slope, rowOfPosition })
  const parameters = [...decoder.adapter]
  const gradients = backward(
    g,
    [{ value: decoder.hidden, gradient: hiddenGradient }],
    parameters.map(([, value]) => value),
    options.isRecomputed === true ? { recompute: blocksByScope((first) => first.startsWith('layers.')) } : {},
  )
  g.output(total.loss, 'loss')
  g.output(head.logp, 'logp')
  g.output(head.entropy, 'entropy')
  if (total.ratio !== null) g.output(total.ratio, 'ratio')
  parameters.forEach(([name], index) => {
    const gradient = gradients[index]
    if (gradient === undefined) throw new Error(`no gradient for ${name}`)
    g.output(gradient, gradientName(name))
  })
  return g.build()
}

/** Builds the score graph: the inputs of `toRowBatch` and the adapter in, `logp` and `entropy` [N] out. */
export function buildScoreGraph(model: RowModel): Graph {
  const g = new GraphBuilder('score')
  const head = emitHead(g, emitDecoder(g, model), false)
  g.output(head.logp, 'logp')
  g.output(head.entropy, 'entropy')
  return g.build()
}

/** Builds a graph that returns all logits [B*T, V]; for checks on small models. */
export function buildLogitsGraph(model: RowModel): Graph {
  const g = new GraphBuilder('logits')
  const decoder = emitDecoder(g, model)
  g.output(gemm(g, decoder.hidden, decoder.headWeight, { transB: true }), 'logits')
  return g.build()
}

interface EmittedDecoder {
  /** [B*T, E] */
  readonly hidden: Value
  /** [V, E] */
  readonly headWeight: Value
  readonly adapter: ReadonlyMap<string, Value>
}

function emitDecoder(g: GraphBuilder, model: RowModel): EmittedDecoder {
  const { config, tensors } = model
  const half = config.headSize / 2
  const inputs = {
    tokens: g.input('tokens', 'int64', ['B', 'T']),
    positions: g.input('positions', 'int64', ['B', 'T']),
    bias: g.input('bias', 'float32', ['B', 'T', 'T']),
    cos: g.input('cos', 'float32', ['P', half]),
    sin: g.input('sin', 'float32', ['P', half]),
  }
  const known = new Map<string, Value>()
  const base = (name: string): Value => {
    const value = known.get(name) ?? external(g, name, tensors)
    known.set(name, value)
    return value
  }
  const { values, pairs } = adapterInputs(g, model)
  const kernels = createTrainKernels(g, config, {
    inputs,
    weights: {
      base,
      adapter: (modulePath) => pairs.get(modulePath),
      scale: model.adapter === null ? 0 : model.adapter.alpha / model.adapter.rank,
    },
  })
  const hidden = buildDecoder(config, kernels)
  return { hidden, headWeight: base(config.isEmbeddingTied ? 'embedding' : 'head'), adapter: values }
}

function external(g: GraphBuilder, name: string, tensors: RowModel['tensors']): Value {
  const tensor = tensors.get(name)
  if (tensor === undefined) throw new Error(`the prepared model has no tensor "${name}"`)
  const { file, offsetBytes, sizeBytes } = tensor
  return g.external(name, tensor.dtype, tensor.shape, { file, offsetBytes, sizeBytes })
}

function adapterInputs(
  g: GraphBuilder,
  model: RowModel,
): { readonly values: ReadonlyMap<string, Value>; readonly pairs: ReadonlyMap<string, LoraPair> } {
  const values = new Map<string, Value>()
  const pairs = new Map<string, LoraPair>()
  if (model.adapter === null) return { values, pairs }
  const { rank } = model.adapter
  for (let layer = 0; layer < model.config.layerCount; layer++) {
    for (const projection of PROJECTIONS) {
      const path = projectionPath(layer, projection)
      const names = adapterTensorNames(path)
      const [outputs, inputs] = projectionShape(model.config, projection)
      const a = g.input(names.a, 'float32', [rank, inputs])
      const b = g.input(names.b, 'float32', [outputs, rank])
      values.set(names.a, a).set(names.b, b)
      pairs.set(path, { a, b })
    }
  }
  return { values, pairs }
}

function emitHead(g: GraphBuilder, decoder: EmittedDecoder, hasSlope: boolean): HeadOutputs {
  const labelPositions = g.input('label_positions', 'int64', ['Q', 'C'])
  const labels = g.input('labels', 'int64', ['Q', 'C'])
  const inputs = { hidden: decoder.hidden, weight: decoder.headWeight, labelPositions, labels }
  return fusedHead(g, inputs, { hasSlope })
}

function emitLoss(
  g: GraphBuilder,
  logp: Value,
  loss: LossKind,
): { readonly loss: Value; readonly ratio: Value | null } {
  const perToken = (name: string): Value => g.input(name, 'float32', ['C*Q'])
  const weight = perToken('weight')
  const denominator = g.input('denominator', 'float32', [])
  if (loss.kind === 'sft') return { loss: crossEntropy(g, logp, weight, denominator), ratio: null }
  const { options } = loss
  const inputs = {
    logp,
    weight,
    denominator,
    oldLogp: perToken('old_logp'),
    advantage: perToken('advantage'),
    mask: perToken('mask'),
    segments: options.ratioLevel === 'token' ? null : g.input('segments', 'float32', ['C*Q', 'G']),
    referenceLogp: options.kl === null ? null : perToken('reference_logp'),
    samplerLogp: options.truncation?.source === 'precalculated' ? perToken('sampler_logp') : null,
  }
  return policyLoss(g, inputs, options)
}
