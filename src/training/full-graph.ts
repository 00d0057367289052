/**
 * The train graph of all weights: rows and weights in, loss and one gradient per weight out.
 *
 * Weights are graph inputs, because every step changes them. The head's gradients come from `nn/linear-cross-entropy.ts`,
 * all others from autodiff; a tied embedding gets both.
 */
import type { DecoderConfig } from '#architectures/decoder-config.js'
import { decoderParameters } from '#architectures/parameters.js'
import { backward } from '#autodiff/backward.js'
import { blocksByScope } from '#autodiff/recompute.js'
import { GraphBuilder } from '#graph/builder.js'
import type { Graph, Value } from '#graph/graph.js'
import { div } from '#graph/ops/elementwise.js'
import { reshape } from '#graph/ops/shape.js'
import { crossEntropy } from '#nn/cross-entropy.js'
import { fusedHead, placeRows } from '#nn/fused-head.js'
import { linearCrossEntropy } from '#nn/linear-cross-entropy.js'
import { emitBareDecoder } from './row-decoder.js'
import { gradientName } from './train-graph.js'

/**
 * Builds the graph.
 *
 * Inputs: those of `toRowBatch`, rotary tables `cos` and `sin`, every tensor of `decoderParameters` by name, `weight` [N] and
 * `denominator` []. Outputs: `loss` [], `logp` [N], and one gradient per tensor.
 *
 * @param options.isRecomputed layers are computed again in the backward pass instead of kept; same numbers. Default false
 */
export function buildFullTrainGraph(config: DecoderConfig, options: { readonly isRecomputed?: boolean } = {}): Graph {
  const g = new GraphBuilder('full-train')
  const { weights, decoder, labelPositions, labels } = emitTrainable(g, config)
  const { weight, denominator } = lossInputs(g)
  const head = linearCrossEntropy(g, {
    hidden: decoder.hidden,
    weight: decoder.headWeight,
    labelPositions,
    labels,
    coefficients: reshape(g, div(g, weight, denominator), labels.shape),
  })
  const rowOfPosition = g.input('row_of_position', 'int64', ['B*T'])
  const parameters = [...weights]
  const gradients = backward(
    g,
    [
      { value: decoder.hidden, gradient: placeRows(g, head.hiddenGradient, rowOfPosition) },
      { value: decoder.headWeight, gradient: head.weightGradient },
    ],
    parameters.map(([, value]) => value),
    options.isRecomputed === true ? { recompute: blocksByScope((first) => first.startsWith('layers.')) } : {},
  )
  g.output(crossEntropy(g, head.logp, weight, denominator), 'loss')
  g.output(head.logp, 'logp')
  parameters.forEach(([name], index) => {
    const gradient = gradients[index]
    if (gradient === undefined) throw new Error(`no gradient for ${name}`)
    g.output(gradient, gradientName(name))
  })
  return g.build()
}

/** Builds the graph of the loss alone: the same inputs, outputs `loss` [] and `logp` [N]. */
export function buildFullScoreGraph(config: DecoderConfig): Graph {
  const g = new GraphBuilder('full-score')
  const { decoder, labelPositions, labels } = emitTrainable(g, config)
  const head = { hidden: decoder.hidden, weight: decoder.headWeight, labelPositions, labels }
  const { logp } = fusedHead(g, head, { hasSlope: false })
  const { weight, denominator } = lossInputs(g)
  g.output(crossEntropy(g, logp, weight, denominator), 'loss')
  g.output(logp, 'logp')
  return g.build()
}

interface Trainable {
  readonly weights: ReadonlyMap<string, Value>
  readonly decoder: ReturnType<typeof emitBareDecoder>
  readonly labelPositions: Value
  readonly labels: Value
}

function emitTrainable(g: GraphBuilder, config: DecoderConfig): Trainable {
  const weights = new Map(decoderParameters(config).map(({ name, shape }) => [name, g.input(name, 'float32', shape)]))
  const decoder = emitBareDecoder(g, config, (name) => {
    const value = weights.get(name)
    if (value === undefined) throw new Error(`the decoder asks for "${name}", which is no parameter`)
    return value
  })
  const labelPositions = g.input('label_positions', 'int64', ['Q', 'C'])
  const labels = g.input('labels', 'int64', ['Q', 'C'])
  return { weights, decoder, labelPositions, labels }
}

function lossInputs(g: GraphBuilder): { readonly weight: Value; readonly denominator: Value } {
  return { weight: g.input('weight', 'float32', ['C*Q']), denominator: g.input('denominator', 'float32', []) }
}
