/**
 * One line per operator: ONNX Runtime against the float64 reference, then autodiff against central differences of the reference.
 *
 * Every case also checks the graph (`verifyGraph`), its optimized form (same numbers), and dtype and shape of the results.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { backward } from '#numerics/autodiff/backward.js'
import type { Attributes } from '#numerics/graph/attributes.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Shape, Value } from '#numerics/graph/graph.js'
import { optimize } from '#numerics/graph/passes/optimize.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { verifyGraph } from '#numerics/graph/verify.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { DType } from '#numerics/tensor/dtype.js'
import { elementCount, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { expectClose, FLOAT32_TOLERANCE, type Tolerance } from './expect-close.js'
import { referenceEvaluate } from './reference-evaluate.js'
import { type ReferenceTensor, reference, toHost } from './reference-tensor.js'

/** Step of the central differences: float64 leaves about ten digits. */
const STEP = 1e-5

export interface OpCase {
  /** Input tensors by name, in the operator's order. */
  readonly inputs: Readonly<Record<string, ReferenceTensor>>
  readonly attributes?: Attributes
  /** Builds the outputs; default: one node of the operator on all inputs. */
  readonly build?: (g: GraphBuilder, inputs: Readonly<Record<string, Value>>) => Value | readonly Value[]
  /** Declared shapes where they shall be symbolic; default: the sizes of the data. */
  readonly symbols?: Readonly<Record<string, Shape>>
  readonly tolerance?: Tolerance
  /** Inputs whose gradients are checked; default: all floats. */
  readonly gradients?: readonly string[]
  readonly gradientTolerance?: Tolerance
  /** What the case is about, when an operator has several. */
  readonly about?: string
}

/** Operators that have had a case, for the coverage test. */
export const coveredOperators = new Set<string>()

/** Registers the tests of one case. */
export function opCase(op: string, options: OpCase): void {
  coveredOperators.add(op)
  const title = options.about === undefined ? op : `${op}: ${options.about}`
  test(`${title} equals the reference`, async () => {
    const graph = buildForward(op, options).build()
    expect(graph.nodes.some((node) => node.op === op)).toBe(true)
    await compare(graph, options.inputs, options.tolerance ?? FLOAT32_TOLERANCE)
  })
  const wrt = options.gradients ?? floatNames(options.inputs)
  if (wrt.length > 0) {
    test(`${title} has the gradient of the reference`, async () => {
      await checkGradients(op, options, wrt)
    })
  }
}

function floatNames(inputs: OpCase['inputs']): readonly string[] {
  return Object.keys(inputs).filter((name) => inputs[name]!.dtype === 'float32')
}

function declareInputs(g: GraphBuilder, options: OpCase): Record<string, Value> {
  const declared = Object.entries(options.inputs).map(([name, tensor]) => {
    return [name, g.input(name, tensor.dtype, options.symbols?.[name] ?? tensor.shape)] as const
  })
  return Object.fromEntries(declared)
}

function buildOutputs(g: GraphBuilder, op: string, options: OpCase, inputs: Record<string, Value>): readonly Value[] {
  if (options.build === undefined) return [g.node(op, Object.values(inputs), options.attributes)[0]!]
  const built = options.build(g, inputs)
  return 'name' in built ? [built] : built
}

function buildForward(op: string, options: OpCase): GraphBuilder {
  const g = new GraphBuilder(op)
  const outputs = buildOutputs(g, op, options, declareInputs(g, options))
  for (const [index, value] of outputs.entries()) g.output(value, `result_${index}`)
  return g
}

async function checkGradients(op: string, options: OpCase, wrt: readonly string[]): Promise<void> {
  const forward = buildForward(op, options).build()
  const results = referenceEvaluate(forward, options.inputs)
  const seeds = Object.fromEntries(
    Object.entries(results)
      .filter(([, tensor]) => tensor.dtype === 'float32')
      .map(([name, tensor]) => [name, normals(tensor.shape, { seed: `seed of ${name}` })]),
  )
  const g = new GraphBuilder(`${op}_gradient`)
  const inputs = declareInputs(g, options)
  const outputs = buildOutputs(g, op, options, inputs)
  const given = outputs.flatMap((value, index) => {
    if (seeds[`result_${index}`] === undefined) return []
    return [{ value, gradient: g.input(`seed_${index}`, 'float32', value.shape) }]
  })
  const gradients = backward(
    g,
    given,
    wrt.map((name) => inputs[name]!),
  )
  for (const [index, name] of wrt.entries()) g.output(gradients[index]!, `gradient_${name}`)
  const seedFeeds = Object.fromEntries(
    Object.entries(seeds).map(([name, seed]) => [name.replace('result', 'seed'), seed]),
  )
  const tolerance = options.gradientTolerance ?? options.tolerance ?? FLOAT32_TOLERANCE
  const found = await compare(g.build(), { ...options.inputs, ...seedFeeds }, tolerance)
  for (const name of wrt) {
    const expected = centralDifferences(forward, options.inputs, name, seeds)
    const limit = { relative: Math.max(tolerance.relative, 1e-5), absolute: Math.max(tolerance.absolute, 1e-5) }
    expectClose(found[`gradient_${name}`]!.data, expected, limit, `gradient of ${name}`)
  }
}

/** d sum(seed · result) / d input, element by element. */
function centralDifferences(
  graph: Graph,
  inputs: OpCase['inputs'],
  name: string,
  seeds: Readonly<Record<string, ReferenceTensor>>,
): Float64Array {
  const tensor = inputs[name]!
  const objective = (data: Float64Array): number => {
    const results = referenceEvaluate(graph, { ...inputs, [name]: { ...tensor, data } })
    let sum = 0
    for (const [output, seed] of Object.entries(seeds)) {
      for (const [i, weight] of seed.data.entries()) sum += weight * results[output]!.data[i]!
    }
    return sum
  }
  return tensor.data.map((value, i) => {
    const moved = tensor.data.slice()
    moved[i] = value + STEP
    const above = objective(moved)
    moved[i] = value - STEP
    return (above - objective(moved)) / (2 * STEP)
  })
}

/** Runs a graph and its optimized form; both must agree with the reference in dtype, shape and values. */
async function compare(
  graph: Graph,
  inputs: OpCase['inputs'],
  tolerance: Tolerance,
): Promise<Record<string, HostTensor & { readonly data: ArrayLike<number | bigint> }>> {
  verifyGraph(graph)
  const optimized = optimize(graph)
  verifyGraph(optimized)
  expect(optimized.nodes.length).toBeLessThanOrEqual(graph.nodes.length)
  const expected = referenceEvaluate(graph, inputs)
  const folded = referenceEvaluate(optimized, inputs)
  const actual = await runGraph(graph, inputs)
  const actualFolded = await runGraph(optimized, inputs)
  for (const declared of graph.outputs) {
    const { name } = declared
    for (const tensor of [actual[name]!, actualFolded[name]!, folded[name]!]) {
      expect(tensor.dtype, `${name} dtype`).toBe(declared.dtype)
      expect(tensor.shape, `${name} shape`).toEqual(expected[name]!.shape)
      expectClose(tensor.data, expected[name]!.data, tolerance, name)
    }
    for (const [axis, dim] of declared.shape.entries()) {
      if (typeof dim === 'number') expect(expected[name]!.shape[axis], `${name} declared axis ${axis}`).toBe(dim)
    }
  }
  return actual
}

/** Writes a graph to a temporary directory, runs it once in ONNX Runtime, and cleans up. */
export async function runGraph(
  graph: Graph,
  inputs: Readonly<Record<string, ReferenceTensor>>,
): Promise<Record<string, HostTensor>> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-op-'))
  try {
    const path = join(directory, 'model.onnx')
    await writeOnnxModel(graph, path)
    const session = await createOrtRuntime().loadSession(path, { threads: 1 })
    const feeds = Object.fromEntries(session.inputNames.map((name) => [name, toHost(inputs[name]!)]))
    const results = await session.run(feeds)
    await session.release()
    return results
  } finally {
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Normal numbers, exactly representable in float32 so that both sides see the same inputs. */
export function normals(
  shape: readonly number[],
  options: { readonly seed?: string; readonly scale?: number; readonly offset?: number } = {},
): ReferenceTensor {
  const { seed = 'x', scale = 1, offset = 0 } = options
  const rng = createRng(`${seed} ${shape.join(',')}`)
  const data = Array.from({ length: elementCount(shape) }, () => Math.fround(rng.normal() * scale + offset))
  return reference('float32', shape, data)
}

/** Uniform numbers in [low, high), representable in float32. */
export function uniforms(shape: readonly number[], low: number, high: number, seed = 'u'): ReferenceTensor {
  const rng = createRng(`${seed} ${shape.join(',')}`)
  const data = Array.from({ length: elementCount(shape) }, () => Math.fround(low + (high - low) * rng.uniform()))
  return reference('float32', shape, data)
}

/** Integers of a dtype (default int64). */
export function integers(shape: readonly number[], values: readonly number[], dtype: DType = 'int64'): ReferenceTensor {
  return reference(dtype, shape, values)
}
