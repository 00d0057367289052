/**
 * Muon: momentum whose matrix-shaped updates are made orthogonal, for the hidden layers of a transformer.
 *
 * The update of a weight matrix is its momentum M = UΣVᵀ with the singular values pushed towards 1 by a fixed number of
 * Newton-Schulz steps, which are matrix products and so run as a graph. Embeddings, norms and biases stay with AdamW.
 * Sources: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; scale of updates and decay from
 * Liu et al. (arXiv:2502.16982, equation 4), so that one learning rate serves Muon and AdamW. The order of operations is that
 * of `torch.optim.Muon` with Nesterov momentum; products are float32 here, bfloat16 there.
 */
import { TrainingError } from '#base/errors/errors.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Value } from '#numerics/graph/graph.js'
import { div, maximum, mul, sqrt } from '#numerics/graph/ops/elementwise.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { concat, split } from '#numerics/graph/ops/shape.js'

/** A weight matrix whose blocks of rows are matrices of their own, for example joined projections. */
export interface MuonMatrix {
  readonly name: string
  /** [sum of `blockRows`, columns] */
  readonly columns: number
  readonly blockRows: readonly number[]
}

export interface MuonOptions {
  readonly learningRate: number
  readonly weightDecay: number
  /** Default 0.95. */
  readonly momentum?: number
}

/** Momentum of each matrix, float32, made when it is first seen. */
export interface MuonState {
  readonly momentum: Map<string, Float32Array>
}

/** Coefficients of the quintic a·X + b·(XXᵀ)X + c·(XXᵀ)²X: steep at 0, so few steps do. */
const [A, B, C] = [3.4445, -4.775, 2.0315]
const NEWTON_SCHULZ_STEPS = 5
const SMALLEST_NORM = 1e-7
/** Root mean square of AdamW's usual update, which Muon's is scaled to. */
const UPDATE_RMS = 0.2

/** Name of the output that carries a matrix's orthogonal update. */
export function orthogonalName(name: string): string {
  return `orthogonal:${name}`
}

/**
 * Builds the graph that makes updates orthogonal: one float32 input per matrix, one output of the same shape.
 *
 * Blocks are scaled by 0.2·sqrt(max(rows, columns)), so that the outputs are ready to be multiplied by the learning rate.
 */
export function buildOrthogonalizeGraph(matrices: readonly MuonMatrix[]): Graph {
  const g = new GraphBuilder('orthogonalize')
  for (const { name, columns, blockRows } of matrices) {
    const rows = blockRows.reduce((sum, count) => sum + count, 0)
    const update = g.input(name, 'float32', [rows, columns])
    const blocks = blockRows.length === 1 ? [update] : split(g, update, blockRows, 0)
    const done = blocks.map((block, index) => {
      const factor = UPDATE_RMS * Math.sqrt(Math.max(blockRows[index] ?? 0, columns))
      return mul(g, orthogonalize(g, block), g.scalar(factor))
    })
    const [first] = done
    if (first === undefined) throw new Error(`matrix "${name}" has no blocks`)
    g.output(done.length === 1 ? first : concat(g, done, 0), orthogonalName(name))
  }
  return g.build()
}

/** Emits Newton-Schulz on one matrix, on the side where the Gram matrix is smaller. */
function orthogonalize(g: GraphBuilder, matrix: Value): Value {
  const [rows, columns] = matrix.shape
  if (typeof rows !== 'number' || typeof columns !== 'number') throw new Error('a matrix of known size is needed')
  const isTall = rows > columns
  const norm = sqrt(g, reduceSum(g, mul(g, matrix, matrix), [0, 1]))
  let x = div(g, matrix, maximum(g, norm, g.scalar(SMALLEST_NORM)))
  for (let step = 0; step < NEWTON_SCHULZ_STEPS; step++) {
    const gram = isTall ? gemm(g, x, x, { transA: true }) : gemm(g, x, x, { transB: true })
    const polynomial = gemm(g, gram, gram, { alpha: C, c: gram, beta: B })
    x = isTall ? gemm(g, x, polynomial, { c: x, beta: A }) : gemm(g, polynomial, x, { c: x, beta: A })
  }
  return x
}

/**
 * Takes a gradient into the momentum and returns what is to be made orthogonal: Nesterov's look-ahead.
 *
 * @throws {TrainingError} `parameter_mismatch` if gradient and momentum have different lengths
 */
export function muonMomentum(
  state: MuonState,
  name: string,
  gradient: Float32Array,
  { momentum = 0.95 }: Pick<MuonOptions, 'momentum'>,
): Float32Array {
  let buffer = state.momentum.get(name)
  if (buffer === undefined) {
    buffer = new Float32Array(gradient.length)
    state.momentum.set(name, buffer)
  }
  if (buffer.length !== gradient.length) {
    const message = `the gradient of "${name}" has ${gradient.length} elements, its momentum ${buffer.length}`
    throw new TrainingError('parameter_mismatch', message)
  }
  const update = new Float32Array(gradient.length)
  for (let i = 0; i < update.length; i++) {
    const g = gradient[i] as number
    const m = (buffer[i] as number) * momentum + g * (1 - momentum)
    buffer[i] = m
    update[i] = g * (1 - momentum) + m * momentum
  }
  return update
}

/** parameter ← parameter·(1 − rate·decay) − rate·update, in place. */
export function muonApply(parameter: Float32Array, update: Float32Array, options: MuonOptions): void {
  const { learningRate, weightDecay } = options
  const decay = 1 - learningRate * weightDecay
  for (let i = 0; i < parameter.length; i++) {
    parameter[i] = (parameter[i] as number) * decay - learningRate * (update[i] as number)
  }
}
