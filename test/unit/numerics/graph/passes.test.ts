/**
 * Passes keep inputs, outputs and numbers, and remove what they say. Numbers are compared in the float64 reference here and in
 * ONNX Runtime by every operator case.
 */
import { describe, expect, test } from 'vitest'
import { after } from '#numerics/autodiff/after.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph } from '#numerics/graph/graph.js'
import { add, cast, exp, identity, mul, sub } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { reshape, shapeOf, slice, transpose } from '#numerics/graph/ops/shape.js'
import { foldConstants } from '#numerics/graph/passes/fold-constants.js'
import { mergeDuplicates } from '#numerics/graph/passes/merge-duplicates.js'
import { optimize, removeDead } from '#numerics/graph/passes/optimize.js'
import { verifyGraph } from '#numerics/graph/verify.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { buildSmallNetwork } from '../../../support/model/small-network.js'
import { expectClose } from '../../../support/reference/expect-close.js'
import { referenceEvaluate } from '../../../support/reference/reference-evaluate.js'
import { type ReferenceTensor, reference } from '../../../support/reference/reference-tensor.js'

const ops = (graph: Graph): string[] => graph.nodes.map(({ op }) => op)

test('removeDead drops nodes and constants nobody needs and keeps inputs', () => {
  const g = new GraphBuilder('dead')
  const x = g.input('x', 'float32', [2])
  g.input('unused', 'float32', [2])
  exp(g, add(g, x, g.constant(float32Tensor(Float32Array.of(1, 2), [2]), 'gone')))
  g.output(mul(g, x, x), 'y')
  const graph = removeDead(g.build())
  expect(ops(graph)).toEqual(['Mul'])
  expect(graph.initializers).toEqual([])
  expect(graph.inputs.map(({ name }) => name)).toEqual(['x', 'unused'])
})

test('removeDead keeps what only a loop body uses, and cleans the body', () => {
  const g = new GraphBuilder('captured')
  const x = g.input('x', 'float32', [3])
  const captured = exp(g, x)
  const { scanned } = loop(g, {
    count: 2,
    carried: [],
    body: (body, index) => {
      exp(body, captured)
      return { scanned: [gather(body, captured, index)] }
    },
  })
  g.output(scanned[0]!, 'y')
  const graph = removeDead(g.build())
  expect(ops(graph)).toEqual(['Exp', 'Loop'])
  const body = graph.nodes[1]?.attributes['body']
  expect(body?.kind === 'graph' && ops(body.value)).toEqual(['Gather', 'Identity'])
  verifyGraph(graph)
})

test('mergeDuplicates joins equal nodes, in loop bodies too, but never outputs', () => {
  const g = new GraphBuilder('twins')
  const x = g.input('x', 'float32', [3])
  const [a, b] = [exp(g, x), exp(g, x)]
  const { scanned } = loop(g, {
    count: 2,
    carried: [],
    body: (body, index) => ({ scanned: [add(body, gather(body, b, index), gather(body, b, index))] }),
  })
  g.output(add(g, a, b), 'sum')
  g.output(scanned[0]!, 'rows')
  g.output(exp(g, x), 'own')
  const graph = mergeDuplicates(g.build())
  expect(ops(graph)).toEqual(['Exp', 'Loop', 'Add', 'Exp'])
  const body = graph.nodes[1]?.attributes['body']
  expect(body?.kind === 'graph' && ops(body.value)).toEqual(['Gather', 'Add', 'Identity'])
  verifyGraph(graph)
})

test('mergeDuplicates tells attributes and operand order apart', () => {
  const g = new GraphBuilder('different')
  const x = g.input('x', 'float32', [3, 3])
  const y = g.input('y', 'float32', [3, 3])
  g.output(add(g, sub(g, x, y), sub(g, y, x)), 'a')
  g.output(add(g, cast(g, cast(g, x, 'float64'), 'float32'), cast(g, cast(g, x, 'float16'), 'float32')), 'b')
  expect(ops(mergeDuplicates(g.build()))).toEqual(ops(g.build()))
})

describe('foldConstants', () => {
  test('computes arithmetic on sizes and scalars', () => {
    const g = new GraphBuilder('fold')
    const x = g.input('x', 'float32', [2, 3])
    const size = slice(g, shapeOf(g, x), { axis: 0, start: 0, end: 1 })
    g.output(mul(g, x, add(g, g.scalar(1.5), mul(g, g.scalar(2), g.scalar(0.25)))), 'y')
    g.output(add(g, size, g.int64s([1])), 'size')
    const graph = removeDead(foldConstants(g.build()))
    expect(ops(graph)).toEqual(['Slice', 'Mul', 'Add'])
    expect(graph.initializers.some(({ value }) => value === graph.nodes[1]?.inputs[1])).toBe(true)
    verifyGraph(graph)
  })

  test('drops nodes that change nothing and joins transposes', () => {
    const g = new GraphBuilder('neutral')
    const x = g.input('x', 'float32', ['B', 3])
    const same = mul(g, identity(g, x), g.scalar(1))
    const back = transpose(g, transpose(g, exp(g, same), [1, 0]), [1, 0])
    g.output(exp(g, back), 'y')
    expect(ops(optimize(g.build()))).toEqual(['Exp', 'Exp'])
  })

  test('keeps a reshape that makes a value wait', () => {
    const g = new GraphBuilder('wait')
    const x = g.input('x', 'float32', [2, 3])
    g.output(exp(g, after(g, x, [exp(g, x)])), 'y')
    expect(ops(optimize(g.build()))).toEqual(['Exp', 'Size', 'Mul', 'Reshape', 'Exp'])
  })

  test('keeps a reshape to a known shape that is another one', () => {
    const g = new GraphBuilder('move')
    const x = g.input('x', 'float32', [2, 3])
    g.output(exp(g, reshape(g, x, [3, 2])), 'y')
    expect(ops(optimize(g.build()))).toEqual(['Reshape', 'Exp'])
  })

  test('does not divide integers by zero', () => {
    const g = new GraphBuilder('zero')
    const quotient = g.node('Div', [g.int64s([1]), g.int64s([0])])[0]!
    g.output(add(g, quotient, g.int64s([1])), 'y')
    expect(ops(foldConstants(g.build()))).toEqual(['Div', 'Add'])
  })
})

test.each([false, true])('optimizing a backward pass keeps its numbers (recomputed: %s)', (isRecomputed) => {
  const graph = buildSmallNetwork({ isRecomputed }).build()
  const optimized = optimize(graph)
  verifyGraph(optimized)
  expect(optimized.nodes.length).toBeLessThan(graph.nodes.length)
  const feeds: Record<string, ReferenceTensor> = {}
  for (const [index, { name, shape }] of graph.inputs.entries()) {
    const sizes = shape.map((dim) => (dim === 'M' ? 3 : Number(dim)))
    const count = sizes.reduce((a, b) => a * b, 1)
    feeds[name] = reference(
      'float32',
      sizes,
      Array.from({ length: count }, (_, i) => Math.sin(i * 1.3 + index)),
    )
  }
  const before = referenceEvaluate(graph, feeds)
  const after = referenceEvaluate(optimized, feeds)
  expect(Object.keys(after)).toEqual(Object.keys(before))
  for (const [name, tensor] of Object.entries(before)) {
    expectClose(after[name]!.data, tensor.data, { relative: 0, absolute: 0 }, name)
  }
})
