/**
 * Building graphs: types are checked at the line that makes a node, outputs get their names, constants are shared.
 */
import { describe, expect, test } from 'vitest'
import { GraphError } from '#base/errors/errors.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { branch } from '#numerics/graph/ops/branch.js'
import { add, equal, exp, mul, where } from '#numerics/graph/ops/elementwise.js'
import { gather, gatherElements, topK } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { fusedMatmul, gemm, matmul } from '#numerics/graph/ops/matmul.js'
import { rmsNorm, softmax } from '#numerics/graph/ops/normalize.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { concat, expand, reshape, slice, split, squeeze, transpose } from '#numerics/graph/ops/shape.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

function builder(): { g: GraphBuilder; x: ReturnType<GraphBuilder['input']>; ids: ReturnType<GraphBuilder['input']> } {
  const g = new GraphBuilder('test')
  return { g, x: g.input('x', 'float32', ['B', 'T', 8]), ids: g.input('ids', 'int64', ['B', 'T']) }
}

describe('shapes that do not fit are refused where the node is made', () => {
  const cases: Record<string, (b: ReturnType<typeof builder>) => unknown> = {
    'add of different sizes': ({ g, x }) => add(g, x, g.input('y', 'float32', ['B', 'T', 7])),
    'add of different symbols': ({ g, x }) => add(g, x, g.input('y', 'float32', ['C', 'T', 8])),
    'add of different dtypes': ({ g, x, ids }) => add(g, ids, x),
    'a product with other inner sizes': ({ g, x }) => matmul(g, x, g.input('w', 'float32', [7, 3])),
    'a product with the wrong flag': ({ g, x }) => fusedMatmul(g, x, g.input('w', 'float32', [8, 3]), { transB: true }),
    'gemm of three dimensions': ({ g, x }) => gemm(g, x, g.input('w', 'float32', [8, 3])),
    'gemm with a wide bias': ({ g }) => {
      const w = g.input('w', 'float32', [3, 3])
      return gemm(g, w, w, { c: g.input('c', 'float32', [4]) })
    },
    'where without a bool': ({ g, x }) => where(g, x, x, x),
    'equal of two dtypes': ({ g, x, ids }) => equal(g, x, ids),
    'an axis that is not there': ({ g, x }) => softmax(g, x, 3),
    'a reduction over an axis that is not there': ({ g, x }) => reduceSum(g, x, [-4]),
    'a norm weight of another size': ({ g, x }) => rmsNorm(g, x, g.input('w', 'float32', [7])),
    'a reshape that loses elements': ({ g, x }) => reshape(g, x, ['B', 'T', 7]),
    'a reshape with a fraction left': ({ g, x }) => reshape(g, x, [-1, 3]),
    'a reshape with two unknowns': ({ g, x }) => reshape(g, x, [-1, -1]),
    'a transpose with an axis twice': ({ g, x }) => transpose(g, x, [0, 0, 1]),
    'a concat of different widths': ({ g, x }) => concat(g, [x, g.input('y', 'float32', ['B', 'T', 7])], 1),
    'a split that does not add up': ({ g, x }) => split(g, x, [3, 4], 2),
    'a slice of an axis that is not there': ({ g, x }) => slice(g, x, { axis: 5, start: 1 }),
    'a squeeze of a large axis': ({ g, x }) => squeeze(g, x, [2]),
    'an expand of a size that is not 1': ({ g, x }) => expand(g, x, ['B', 'T', 16]),
    'a gather by floats': ({ g, x }) => gather(g, x, x),
    'indices of another rank': ({ g, x, ids }) => gatherElements(g, x, ids, 2),
    'an input of another graph': ({ g, x }) =>
      add(g, new GraphBuilder('other').input('x', 'float32', ['B', 'T', 8]), x),
    'an unknown operator without types': ({ g, x }) => g.node('Mystery', [x]),
    'a name used twice': ({ g }) => g.input('x', 'float32', [1]),
    'a size no tensor has': ({ g, x }) => expand(g, reduceSum(g, x, [0]), ['Z', 'T', 8]),
    'a carried value that changes its shape': ({ g, x }) =>
      loop(g, { count: 2, carried: [x], body: (body, _, [v]) => ({ carried: [reduceSum(body, v!, [2])] }) }),
    'an output of another graph': ({ g }) => g.output(new GraphBuilder('o').scalar(1), 'y'),
  }
  test.each(Object.entries(cases))('%s', (_, make) => {
    expect(() => make(builder())).toThrow(GraphError)
  })
})

test('the message names the operator and the types of its inputs', () => {
  const { g, x } = builder()
  expect(() => matmul(g, x, g.input('w', 'float32', [7, 3]))).toThrow(
    'MatMul expects equal inner sizes, not 8 and 7, got (x: float32 [B, T, 8], w: float32 [7, 3])',
  )
})

test('sizes are inferred with their symbols', () => {
  const { g, x, ids } = builder()
  expect(matmul(g, x, g.input('w', 'float32', [8, 3])).shape).toEqual(['B', 'T', 3])
  expect(reshape(g, x, [-1, 4]).shape).toEqual(['2*B*T', 4])
  expect(reshape(g, x, [0, -1]).shape).toEqual(['B', '8*T'])
  expect(concat(g, [x, g.input('y', 'float32', ['B', 'S', 8])], 1).shape).toEqual(['B', 'S+T', 8])
  expect(gather(g, g.input('table', 'float32', [100, 16]), ids).shape).toEqual(['B', 'T', 16])
  expect(topK(g, x, 3).values.shape).toEqual(['B', 'T', 3])
  expect(slice(g, x, { axis: 1, start: 2 }).shape).toEqual(['B', 'T-2', 8])
})

test('operations that change nothing return their input', () => {
  const { g, x } = builder()
  expect(reshape(g, x, ['B', 'T', 8])).toBe(x)
  expect(transpose(g, x, [0, 1, 2])).toBe(x)
  expect(concat(g, [x], 1)).toBe(x)
  expect(split(g, x, [8], 2)[0]).toBe(x)
  expect(slice(g, x, { axis: 0 })).toBe(x)
  expect(expand(g, x, ['B', 'T', 8])).toBe(x)
  expect(g.nodes).toEqual([])
})

test('a reshape costs no nodes where copies and one unknown say it all', () => {
  const { g, x } = builder()
  reshape(g, x, ['B', 'T', 2, 4])
  reshape(g, x, ['B*T', 8])
  expect(g.nodes.map((node) => node.op)).toEqual(['Reshape', 'Reshape'])
})

test('equal constants are one constant, also from inside a loop', () => {
  const { g, x } = builder()
  loop(g, { count: 2, carried: [], body: (body) => ({ scanned: [mul(body, x, body.scalar(3))] }) })
  expect(g.scalar(3)).toBe(g.scalar(3))
  expect(g.int64s([1, 2])).toBe(g.int64s([1, 2]))
  expect(g.scalar(0)).not.toBe(g.scalar(-0))
  expect(g.build().initializers.filter(({ value }) => value === g.scalar(3))).toHaveLength(1)
})

test('outputs carry their names; inputs, constants and repeated values get a node of their own', () => {
  const { g, x } = builder()
  const sum = add(g, x, x)
  g.output(sum, 'sum')
  g.output(sum, 'again')
  g.output(x, 'same')
  const graph = g.build()
  expect(graph.outputs.map(({ name }) => name)).toEqual(['sum', 'again', 'same'])
  expect(graph.nodes.map(({ op }) => op)).toEqual(['Add', 'Identity', 'Identity'])
  expect(graph.nodes[1]?.inputs[0]).toBe(graph.nodes[0]?.outputs[0])
})

test('scopes nest and are restored when building throws', () => {
  const { g, x } = builder()
  g.scope('a', () => g.scope('b', () => add(g, x, x)))
  expect(() => g.scope('c', () => add(g, x, g.input('y', 'float32', [3])))).toThrow(GraphError)
  add(g, x, x)
  expect(g.nodes.map(({ scope }) => scope)).toEqual(['a/b', ''])
})

test('expectShape passes the value on or names both shapes', () => {
  const { g, x } = builder()
  expect(g.expectShape(x, ['B', 'T', 8])).toBe(x)
  expect(() => g.scope('layers.1', () => g.expectShape(x, ['B', 8]))).toThrow(
    'x in layers.1 has shape [B, T, 8], expected [B, 8]',
  )
})

test('graphs are values: building twice gives equal graphs', () => {
  const g = new GraphBuilder('twice')
  const w = g.constant(float32Tensor(Float32Array.of(1, 2), [2]), 'w')
  g.output(add(g, w, w), 'y')
  expect(g.build()).toEqual(g.build())
})

test('both bodies of an If return values of the same types', () => {
  const g = new GraphBuilder('if')
  const x = g.input('x', 'float32', ['B', 2])
  const condition = g.input('condition', 'bool', [])
  expect(() =>
    branch(g, condition, { whenTrue: (body) => [exp(body, x)], whenFalse: (body) => [exp(body, x), x] }),
  ).toThrow('If returns (float32 [B, 2]) or (float32 [B, 2], float32 [B, 2])')
})
