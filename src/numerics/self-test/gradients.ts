/**
 * Whether this machine's kernels and our gradient rules agree: the gradient of each operator that training leans on, beside central
 * differences of its own results. For `trainyard system-check`; it takes some milliseconds.
 *
 * All operators stand in one graph, each with an input of its own, so that one run moves one element of every input. The tests
 * of this repository hold every operator to a float64 reference, which this does not replace.
 */
import { createRng } from '#base/util/rng.js'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { add, div, exp, log, mul, pow, sigmoid, sub, tanh } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { gemm, matmul } from '#numerics/graph/ops/matmul.js'
import { logSoftmax, quickGelu, rmsNorm, rotaryEmbedding, softmax } from '#numerics/graph/ops/normalize.js'
import { reduceMean } from '#numerics/graph/ops/reduce.js'
import { transpose } from '#numerics/graph/ops/shape.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'

/** What came out for one operator. */
export interface GradientCheck {
  readonly operator: string
  /** Largest difference between gradient and central difference, in parts of the larger of the two or of 1. */
  readonly error: number
  readonly isPassed: boolean
}

/** Of [B, T, H*D] as it is between layers. */
const SHAPE = [1, 3, 4]
const SIZE = 12
/** Of the central differences: float32 leaves about five digits. */
const STEP = 1e-2
/** More than ten times what a sound machine shows (1.2e-4, of Div); a wrong rule or kernel is off by much of its gradient. */
const TOLERANCE = 2e-3

type Build = (g: GraphBuilder, x: Value, other: (shape: readonly number[]) => Value) => Value

const OPERATORS: Readonly<Record<string, Build>> = {
  Add: (g, x, other) => add(g, x, other(SHAPE)),
  Sub: (g, x, other) => sub(g, other(SHAPE), x),
  Mul: (g, x, other) => mul(g, x, mul(g, x, other(SHAPE))),
  Div: (g, x) => div(g, g.scalar(1), add(g, mul(g, x, x), g.scalar(1))),
  Pow: (g, x) => pow(g, add(g, mul(g, x, x), g.scalar(1)), g.scalar(0.5)),
  Exp: (g, x) => exp(g, x),
  Log: (g, x) => log(g, add(g, mul(g, x, x), g.scalar(1))),
  Sigmoid: (g, x) => sigmoid(g, x),
  Tanh: (g, x) => tanh(g, x),
  QuickGelu: (g, x) => quickGelu(g, x),
  MatMul: (g, x, other) => matmul(g, x, other([4, 5])),
  Gemm: (g, x, other) => gemm(g, gather(g, x, g.int64Scalar(0), 0), other([5, 4]), { transB: true }),
  Softmax: (g, x) => softmax(g, x),
  LogSoftmax: (g, x) => logSoftmax(g, x),
  SimplifiedLayerNormalization: (g, x, other) => rmsNorm(g, x, other([4])),
  RotaryEmbedding: (g, x, other) => {
    const positions = g.constant(int64Tensor([0, 1, 2], [1, 3]))
    return rotaryEmbedding(g, x, positions, other([3, 1]), other([3, 1]), { headCount: 2 })
  },
  Gather: (g, x) => gather(g, x, g.int64s([2, 0, 2]), 1),
  ReduceMean: (g, x) => reduceMean(g, mul(g, x, x), [-1]),
  Transpose: (g, x, other) => mul(g, transpose(g, x, [0, 2, 1]), other([1, 4, 3])),
}

/**
 * Compares all gradients.
 *
 * @throws {RuntimeError} `runtime_failed` if the runtime cannot run the graph at all
 */
export async function checkGradients(runtime: Runtime): Promise<readonly GradientCheck[]> {
  const random = createRng('gradients')
  const normals = (shape: readonly number[]): HostTensor<'float32'> => {
    const size = shape.reduce((product, dim) => product * dim, 1)
    return float32Tensor(
      Float32Array.from({ length: size }, () => random.normal()),
      shape,
    )
  }
  const names = Object.keys(OPERATORS)
  const g = new GraphBuilder('gradient_self_test')
  const seeds = new Map<string, HostTensor<'float32'>>()
  for (const [name, build] of Object.entries(OPERATORS)) {
    const x = g.input(`x_${name}`, 'float32', SHAPE)
    const y = build(g, x, (shape) => g.constant(normals(shape)))
    const seed = normals(y.shape.map(Number))
    seeds.set(name, seed)
    const [gradient] = backward(g, [{ value: y, gradient: g.constant(seed) }], [x])
    g.output(y, `y_${name}`)
    g.output(gradient as Value, `gradient_${name}`)
  }
  const model = { bytes: toOnnxModel(g.build(), 'gradients.onnx'), directory: '.' }
  const session = await runtime.loadSession(model, { threads: 1 })
  try {
    const inputs = new Map(names.map((name) => [name, normals(SHAPE)]))
    /** Σ seed · y of every operator, with one element of every input moved. */
    const objectives = async (element: number, step: number): Promise<readonly number[]> => {
      const feeds = [...inputs].map(([name, { data, shape }]) => {
        const moved = data.slice()
        moved[element] = (moved[element] ?? 0) + step
        return [`x_${name}`, float32Tensor(moved, shape)] as const
      })
      const outputs = names.map((name) => `y_${name}`)
      const results = await session.run(Object.fromEntries(feeds), outputs)
      return names.map((name) => dot(seeds.get(name)?.data, results[`y_${name}`]?.data))
    }
    const feeds = Object.fromEntries([...inputs].map(([name, tensor]) => [`x_${name}`, tensor]))
    const found = await session.run(feeds)
    const errors = names.map(() => 0)
    for (let element = 0; element < SIZE; element += 1) {
      const [above, below] = [await objectives(element, STEP), await objectives(element, -STEP)]
      for (const [i, name] of names.entries()) {
        const expected = ((above[i] ?? 0) - (below[i] ?? 0)) / (2 * STEP)
        const gradient = Number(found[`gradient_${name}`]?.data[element])
        const error = Math.abs(gradient - expected) / Math.max(1, Math.abs(expected), Math.abs(gradient))
        errors[i] = Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(errors[i] ?? 0, error)
      }
    }
    return names.map((operator, i) => {
      const error = errors[i] ?? Number.POSITIVE_INFINITY
      return { operator, error, isPassed: error <= TOLERANCE }
    })
  } finally {
    await session.release()
  }
}

function dot(a: ArrayLike<number> | undefined, b: HostTensor['data'] | undefined): number {
  let sum = 0
  for (let i = 0; i < (a?.length ?? 0); i += 1) sum += (a?.[i] ?? 0) * Number(b?.[i])
  return sum
}
