/**
 * The pass for devices: what it rewrites, what it leaves, and that the graph stays one. Numbers are compared in
 * `test/integration/numerics/device-pass.test.ts`.
 */
import { describe, expect, test } from 'vitest'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Node } from '#numerics/graph/graph.js'
import { branch } from '#numerics/graph/ops/branch.js'
import { type exp, mul } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { fusedMatmul, matmul } from '#numerics/graph/ops/matmul.js'
import { logSoftmax, rmsNorm } from '#numerics/graph/ops/normalize.js'
import { dimMayBeZero } from '#numerics/graph/passes/device-rewrites.js'
import { forDevice } from '#numerics/graph/passes/for-device.js'
import { verifyGraph } from '#numerics/graph/verify.js'
import { buildSmallNetwork } from '../../../support/model/small-network.js'

const ops = (graph: Graph): string[] => graph.nodes.map(({ op }) => op)

/** Builds a graph whose one output is what `build` returns. */
function graphOf(build: (g: GraphBuilder) => ReturnType<typeof exp>): Graph {
  const g = new GraphBuilder('device')
  g.output(build(g), 'y')
  return g.build()
}

function onWebgpu(graph: Graph, neverZero: readonly string[] = []): Graph {
  const rewritten = forDevice(graph, 'webgpu', { neverZero })
  verifyGraph(rewritten)
  expect(rewritten.inputs).toEqual(graph.inputs)
  expect(rewritten.outputs).toEqual(graph.outputs)
  return rewritten
}

/** Norm whose second output is read, as gradients of norms read it. */
function normWithInverse(g: GraphBuilder): ReturnType<typeof exp> {
  const x = g.input('x', 'float32', ['N', 4])
  const weight = g.input('weight', 'float32', [4])
  const attributes = { axis: { kind: 'int', value: -1 }, epsilon: { kind: 'float', value: 1e-6 } } as const
  const [normed, inverse] = g.node('SimplifiedLayerNormalization', [x, weight], attributes)
  return mul(g, normed!, inverse!)
}

test('a graph for the CPU is the very same object', () => {
  const graph = buildSmallNetwork({ isRecomputed: true }).build()
  expect(forDevice(graph, 'cpu')).toBe(graph)
})

describe('1 / rms', () => {
  test('is computed by hand where it is read, with the epsilon of its norm', () => {
    const rewritten = onWebgpu(graphOf(normWithInverse))
    expect(ops(rewritten)).toEqual([
      'Mul',
      'ReduceMean',
      'Add',
      'Sqrt',
      'Reciprocal',
      'SimplifiedLayerNormalization',
      'Mul',
    ])
    const constants = rewritten.initializers.flatMap((each) => (each.kind === 'inline' ? [...each.data.data] : []))
    expect(constants.map(Number)).toContain(Math.fround(1e-6))
    const norm = rewritten.nodes.find(({ op }) => op === 'SimplifiedLayerNormalization') as Node
    const isRead = rewritten.nodes.some(({ inputs }) => inputs.includes(norm.outputs[1]!))
    expect(isRead).toBe(false)
  })

  test('stays away where nobody reads it', () => {
    const graph = graphOf((g) => rmsNorm(g, g.input('x', 'float32', ['N', 4]), g.input('w', 'float32', [4])))
    expect(ops(onWebgpu(graph))).toEqual(['SimplifiedLayerNormalization'])
  })

  test('is seen to be read from a body', () => {
    const graph = graphOf((g) => {
      const x = g.input('x', 'float32', ['N', 4])
      const [, inverse] = g.node('SimplifiedLayerNormalization', [x, g.input('w', 'float32', [4])])
      const { scanned } = loop(g, {
        count: 2,
        carried: [],
        body: (body, index) => ({ scanned: [gather(body, inverse!, index)] }),
      })
      return scanned[0]!
    })
    expect(ops(onWebgpu(graph))).toContain('Reciprocal')
  })

  test('of another type than float32 is refused, for it would be wrong in silence', () => {
    const graph = graphOf((g) => {
      const x = g.input('x', 'float16', ['N', 4])
      return g.node('SimplifiedLayerNormalization', [x, g.input('w', 'float16', [4])])[1]!
    })
    expect(() => forDevice(graph, 'webgpu')).toThrow(expect.objectContaining({ code: 'no_device_rule' }))
  })
})

describe('products', () => {
  const product = (shapes: readonly (readonly (number | string)[])[], flags: Parameters<typeof fusedMatmul>[3]) =>
    graphOf((g) =>
      fusedMatmul(g, g.input('a', 'float32', shapes[0] ?? []), g.input('b', 'float32', shapes[1] ?? []), flags),
    )

  test('transposes and factor become nodes of their own', () => {
    const graph = product(
      [
        ['B', 'M', 8],
        ['B', 'N', 8],
      ],
      { transB: true, alpha: 0.5 },
    )
    expect(ops(onWebgpu(graph))).toEqual(['Transpose', 'Mul', 'MatMul'])
  })

  test('the factor goes to the result where the inner size is not known', () => {
    const graph = product(
      [
        ['B', 'K', 'M'],
        ['B', 'K', 4],
      ],
      { transA: true, alpha: 2 },
    )
    expect(ops(onWebgpu(graph, ['K']))).toEqual(['Transpose', 'MatMul', 'Mul'])
  })

  test('of two matrices become Gemm', () => {
    const graph = product(
      [
        ['K', 'M'],
        ['K', 4],
      ],
      { transA: true, alpha: 2 },
    )
    expect(ops(onWebgpu(graph, ['K']))).toEqual(['Gemm'])
    // of nothing it would end the process, too: the sizes that are summed over are the first ones here
    const rewritten = onWebgpu(graph)
    expect(ops(rewritten)).toEqual(['Pad', 'Pad', 'Gemm'])
    expect(rewritten.nodes.slice(0, 2).map(({ outputs }) => outputs[0]?.shape)).toEqual([
      ['K+1', 'M'],
      ['K+1', 4],
    ])
  })

  test('an inner size that may be 0 is made one larger, on both sides', () => {
    const graph = graphOf((g) =>
      matmul(g, g.input('a', 'float32', ['B', 3, 'P']), g.input('b', 'float32', ['B', 'P', 4])),
    )
    const rewritten = onWebgpu(graph)
    expect(ops(rewritten)).toEqual(['Pad', 'Pad', 'MatMul'])
    expect(rewritten.nodes.slice(0, 2).map(({ outputs }) => outputs[0]?.shape)).toEqual([
      ['B', 3, 'P+1'],
      ['B', 'P+1', 4],
    ])
    expect(ops(onWebgpu(graph, ['P']))).toEqual(['MatMul'])
    expect(ops(forDevice(graph, 'cuda'))).toEqual(['Pad', 'Pad', 'MatMul'])
  })

  test('in the bodies of If and Loop as well', () => {
    const graph = graphOf((g) => {
      const a = g.input('a', 'float32', ['B', 3, 'P'])
      const b = g.input('b', 'float32', ['B', 4, 'P'])
      const whenTrue = (body: GraphBuilder) => [fusedMatmul(body, a, b, { transB: true })]
      return branch(g, g.input('is', 'bool', []), { whenTrue, whenFalse: whenTrue })[0]!
    })
    const [node] = onWebgpu(graph).nodes
    const bodies = Object.values(node?.attributes ?? {}).flatMap((each) => (each.kind === 'graph' ? [each.value] : []))
    expect(bodies.map(ops)).toEqual([
      ['Transpose', 'Pad', 'Pad', 'MatMul'],
      ['Transpose', 'Pad', 'Pad', 'MatMul'],
    ])
  })
})

test('LogSoftmax is made of what has kernels', () => {
  const graph = graphOf((g) => logSoftmax(g, g.input('x', 'float32', ['N', 5])))
  expect(ops(onWebgpu(graph))).toEqual(['ReduceMax', 'Sub', 'Exp', 'ReduceSum', 'Log', 'Sub'])
})

test('a graph that was rewritten is left alone the next time', () => {
  for (const graph of [graphOf(normWithInverse), buildSmallNetwork({ isRecomputed: true }).build()]) {
    const once = forDevice(graph, 'webgpu')
    expect(ops(forDevice(once, 'webgpu'))).toEqual(ops(once))
  }
})

test('sizes that may be 0', () => {
  const known = new Set(['P', 'T'])
  for (const dim of [1, 'P', 'P+C', 'P*T', '2*T', 'C+1']) expect(dimMayBeZero(dim, known), `${dim}`).toBe(false)
  for (const dim of [0, 'C', 'C*P', 'C+X', 'P-T', 'P-1']) expect(dimMayBeZero(dim, known), `${dim}`).toBe(true)
})
