/**
 * The train graph of all weights: rows and weights in, loss and gradients out; `fullGradients` reads one per weight from them.
 *
 * Weights are graph inputs, because every step changes them. The head's gradients come from `linear-cross-entropy.ts`,
 * all others from autodiff; a tied embedding gets both. Rows of the embedding that tokens and labels look up get their gradients
 * as rows, which `fullGradients` adds up on the host: a scatter in the graph took 2 to 4% of a step.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { backward } from '#numerics/autodiff/backward.js'
import { blocksByScope } from '#numerics/autodiff/recompute.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Value } from '#numerics/graph/graph.js'
import { div } from '#numerics/graph/ops/elementwise.js'
import { reshape } from '#numerics/graph/ops/shape.js'
import { crossEntropy } from '#numerics/nn/cross-entropy.js'
import { fusedHead, placeRows } from '#numerics/nn/fused-head.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { decoderParameters } from '#plugins/torch/parameters.js'
import { float32Of, gradientsOf } from '#training/trainer/gradients.js'
import type { RowBatch } from '#training/trainer/row-batch.js'
import { emitBareDecoder } from '#training/trainer/row-decoder.js'
import { gradientName } from '#training/trainer/train-graph.js'
import { linearCrossEntropy } from './linear-cross-entropy.js'

/** Outputs of gradients by row: d loss / d embedding row of each token [B*T, E], and of each label [N, E]. */
const TOKEN_ROWS = 'gradient_rows:tokens'
const LABEL_ROWS = 'gradient_rows:labels'

/**
 * Builds the graph.
 *
 * Inputs: those of `toRowBatch`, rotary tables `cos` and `sin`, every tensor of `decoderParameters` by name, `weight` [N] and
 * `denominator` []. Outputs: `loss` [], `logp` [N], and what `fullGradients` reads.
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
  const parameters = [...weights].filter(([name]) => name !== 'embedding' && name !== 'head')
  const [embedded, ...gradients] = backward(
    g,
    [{ value: decoder.hidden, gradient: placeRows(g, head.hiddenGradient, rowOfPosition) }],
    [decoder.embedded, ...parameters.map(([, value]) => value)],
    options.isRecomputed === true ? { recompute: blocksByScope((first) => first.startsWith('layers.')) } : {},
  )
  g.output(crossEntropy(g, head.logp, weight, denominator), 'loss')
  g.output(head.logp, 'logp')
  if (embedded === undefined) throw new Error('no gradient for the embedding')
  g.output(embedded, TOKEN_ROWS)
  g.output(head.labelGradient, LABEL_ROWS)
  g.output(head.weightGradient, gradientName(headParameter(config)))
  parameters.forEach(([name], index) => {
    const gradient = gradients[index]
    if (gradient === undefined) throw new Error(`no gradient for ${name}`)
    g.output(gradient, gradientName(name))
  })
  return g.build()
}

/**
 * Every tensor's gradient from what a run of the train graph returned; arrays of `result` are used, not copied.
 *
 * @param batch what the graph was run on: its tokens and labels say which rows of the embedding are meant
 * @returns by parameter name, each flat in the shape `decoderParameters` gives
 */
export function fullGradients(
  config: DecoderConfig,
  { feeds }: RowBatch,
  result: Readonly<Record<string, HostTensor>>,
): ReadonlyMap<string, Float32Array> {
  const { hiddenSize, vocabularySize } = config
  const names = decoderParameters(config).map(({ name }) => name)
  const gradients = config.isEmbeddingTied
    ? gradientsOf(result, names)
    : gradientsOf(
        result,
        names.filter((name) => name !== 'embedding'),
      ).set('embedding', new Float32Array(vocabularySize * hiddenSize))
  const rowsOf = (name: string): Float32Array => gradients.get(name) as Float32Array
  addRowsAt(rowsOf('embedding'), feeds['tokens'], float32Of(result, TOKEN_ROWS))
  addRowsAt(rowsOf(headParameter(config)), feeds['labels'], float32Of(result, LABEL_ROWS))
  return gradients
}

/** Adds row i of `rows` to row `indices[i]` of a matrix of the same width, in order. */
function addRowsAt(matrix: Float32Array, indices: HostTensor | undefined, rows: Float32Array): void {
  if (indices?.dtype !== 'int64') throw new Error('rows need int64 indices')
  const width = rows.length / indices.data.length
  for (let row = 0; row < indices.data.length; row++) {
    const target = Number(indices.data[row]) * width
    const source = row * width
    for (let i = 0; i < width; i++) matrix[target + i] = (matrix[target + i] as number) + (rows[source + i] as number)
  }
}

/** Name of the parameter that is the head's matrix. */
function headParameter(config: DecoderConfig): string {
  return config.isEmbeddingTied ? 'embedding' : 'head'
}

/** Builds the graph of the loss alone: the same inputs, outputs `loss` [] and `logp` [N]. */
export function buildFullScoreGraph(config: DecoderConfig): Graph {
  const g = new GraphBuilder('full-score')
  const { decoder, labelPositions, labels } = emitTrainable(g, config)
  const head = { hidden: decoder.hidden, weight: decoder.headWeight, labelPositions, labels }
  const { logp } = fusedHead(g, head, { slopes: null })
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
