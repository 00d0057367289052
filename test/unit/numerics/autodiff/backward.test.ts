/**
 * The reverse walk as such: what it visits, what it emits, and what it says when it cannot go on. Numbers are checked by the
 * operator cases.
 */
import { describe, expect, test } from 'vitest'
import { GraphError, MissingGradientError } from '#base/errors/errors.js'
import { backward } from '#numerics/autodiff/backward.js'
import { blocksByScope } from '#numerics/autodiff/recompute.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Node, Value } from '#numerics/graph/graph.js'
import { add, exp, mul, stopGradient } from '#numerics/graph/ops/elementwise.js'
import { argMax, gather } from '#numerics/graph/ops/indexing.js'
import { gemm, matmulNBits } from '#numerics/graph/ops/matmul.js'
import { optimize } from '#numerics/graph/passes/optimize.js'
import { usedValues } from '#numerics/graph/traverse.js'
import { buildSmallNetwork } from '../../../support/model/small-network.js'
import { referenceEvaluate } from '../../../support/reference/reference-evaluate.js'
import { reference } from '../../../support/reference/reference-tensor.js'

/** Operators the backward pass appended. */
function appended(g: GraphBuilder, build: () => unknown): string[] {
  const before = g.nodes.length
  build()
  return g.nodes.slice(before).map(({ op }) => op)
}

describe('a linear layer', () => {
  const layer = (): { g: GraphBuilder; x: Value; w: Value; y: Value; dy: Value } => {
    const g = new GraphBuilder('linear')
    const x = g.input('x', 'float32', ['M', 4])
    const w = g.input('w', 'float32', [3, 4])
    return { g, x, w, y: gemm(g, x, w, { transB: true }), dy: g.input('dy', 'float32', ['M', 3]) }
  }

  test('costs one product for the gradient of its input, none for a frozen weight, and no transpose', () => {
    const { g, x, y, dy } = layer()
    expect(appended(g, () => backward(g, [{ value: y, gradient: dy }], [x]))).toEqual(['Gemm'])
    expect(g.nodes.at(-1)).toMatchObject({ inputs: [dy, { name: 'w' }], attributes: {} })
  })

  test('gives a weight its gradient in the layout of the weight', () => {
    const { g, w, x, y, dy } = layer()
    const [dw] = backward(g, [{ value: y, gradient: dy }], [w])
    expect(dw?.shape).toEqual([3, 4])
    expect(g.nodes.at(-1)).toMatchObject({ inputs: [dy, x], attributes: { transA: { value: 1 } } })
  })
})

test('gradients of a value used twice add up, seeds too', () => {
  const g = new GraphBuilder('sum')
  const x = g.input('x', 'float32', [2])
  const square = mul(g, x, x)
  const seed = g.input('seed', 'float32', [2])
  const seeds = [
    { value: square, gradient: seed },
    { value: square, gradient: seed },
    { value: x, gradient: seed },
  ]
  g.output(backward(g, seeds, [x])[0]!, 'dx')
  const feeds = { x: reference('float32', [2], [3, 5]), seed: reference('float32', [2], [1, 10]) }
  expect([...referenceEvaluate(g.build(), feeds)['dx']!.data]).toEqual([13, 210])
})

test('nothing flows through stopGradient or integers, and what nothing depends on gets zeros', () => {
  const g = new GraphBuilder('stop')
  const x = g.input('x', 'float32', ['B', 2])
  const table = g.input('table', 'float32', [2, 2])
  const y = add(g, stopGradient(g, exp(g, x)), gather(g, table, argMax(g, x, 1, { keepDims: false })))
  const [dx] = backward(g, [{ value: y, gradient: g.input('dy', 'float32', ['B', 2]) }], [x])
  g.output(dx!, 'dx')
  const feeds = {
    x: reference('float32', [3, 2], [1, 2, 3, 4, 5, 6]),
    table: reference('float32', [2, 2], [1, 2, 3, 4]),
    dy: reference('float32', [3, 2], [1, 1, 1, 1, 1, 1]),
  }
  expect(dx?.shape).toEqual(['B', 2])
  expect([...referenceEvaluate(g.build(), feeds)['dx']!.data]).toEqual([0, 0, 0, 0, 0, 0])
})

test('a missing rule names the operator, its place and the nodes around it', () => {
  const g = new GraphBuilder('missing')
  const x = g.input('x', 'float32', ['B', 32])
  const weight = { quantized: g.input('q', 'uint8', [4, 1, 16]), scales: g.input('s', 'float32', [4, 1]) }
  const doubled = add(g, x, x)
  const y = g.scope('layers.0', () =>
    matmulNBits(g, doubled, { ...weight, rows: 4, columns: 32, bits: 4, blockSize: 32 }),
  )
  exp(g, y)
  const dy = g.input('dy', 'float32', ['B', 4])
  const attempt = (): unknown => backward(g, [{ value: y, gradient: dy }], [x])
  expect(attempt).toThrow(MissingGradientError)
  expect(attempt).toThrow(
    /no gradient rule for MatMulNBits in layers\.0:\n {2}%add_1.*\n> %matmulnbits_1.*\n {2}%exp_1/,
  )
})

test('an operator without a rule does not matter off the path', () => {
  const g = new GraphBuilder('frozen')
  const x = g.input('x', 'float32', ['B', 32])
  const weight = { quantized: g.input('q', 'uint8', [32, 1, 16]), scales: g.input('s', 'float32', [32, 1]) }
  const base = matmulNBits(g, x, { ...weight, rows: 32, columns: 32, bits: 4, blockSize: 32 })
  const w = g.input('w', 'float32', [32])
  const y = add(g, base, w)
  expect(backward(g, [{ value: y, gradient: g.input('dy', 'float32', ['B', 32]) }], [w])[0]?.shape).toEqual([32])
})

test('a seed of another shape is refused', () => {
  const g = new GraphBuilder('seed')
  const x = g.input('x', 'float32', ['B', 2])
  const y = exp(g, x)
  expect(() => backward(g, [{ value: y, gradient: g.input('dy', 'float32', ['B', 3]) }], [x])).toThrow(GraphError)
})

/** All nodes a node needs, itself included. */
function ancestors(nodes: readonly Node[], start: Node): ReadonlySet<Node> {
  const makers = new Map(nodes.flatMap((node) => node.outputs.map((output) => [output, node] as const)))
  const found = new Set<Node>()
  const visit = (node: Node): void => {
    if (found.has(node)) return
    found.add(node)
    for (const value of usedValues(node)) {
      const maker = makers.get(value)
      if (maker !== undefined) visit(maker)
    }
  }
  visit(start)
  return found
}

describe('recomputed layers', () => {
  const layers = 3
  const graph = optimize(buildSmallNetwork({ isRecomputed: true, layers }).build())

  test.each([0, 1])('layer %i is computed again only after the gradient of the layer above is there', (layer) => {
    const again = graph.nodes.filter(({ scope }) => scope === `again/layers.${layer}`)
    expect(again.some(({ op }) => op === 'Gemm')).toBe(true)
    for (const node of again) {
      const scopes = [...ancestors(graph.nodes, node)].map(({ scope }) => scope)
      expect(scopes).toContain(`backward/layers.${layer + 1}`)
    }
  })

  test('the backward pass of a layer reads only what was computed again and what entered the layer', () => {
    const makers = new Map(graph.nodes.flatMap((node) => node.outputs.map((output) => [output, node] as const)))
    for (const node of graph.nodes.filter(({ scope }) => scope.startsWith('backward/layers.'))) {
      const scopes = usedValues(node).flatMap((value) => makers.get(value)?.scope ?? [])
      expect(scopes.filter((scope) => scope.startsWith('layers.'))).toEqual([])
    }
  })

  test('adapter gradients of a layer are made before the walk enters the next one', () => {
    const last = graph.nodes.findLast(({ scope }) => scope === 'backward/layers.0')!
    const needed = ancestors(graph.nodes, last)
    const products = graph.nodes.filter(({ scope, op, attributes }) => {
      return scope === 'backward/layers.2' && op === 'Gemm' && attributes['transA'] !== undefined
    })
    expect(products).toHaveLength(2)
    expect(products.every((node) => needed.has(node))).toBe(true)
  })
})

test('blocksByScope goes by the first name of a scope', () => {
  const blockOf = blocksByScope((name) => name.startsWith('layers.'))
  expect(blockOf('layers.3/attention')).toBe('layers.3')
  expect(blockOf('layers.3')).toBe('layers.3')
  expect(blockOf('final_norm')).toBeNull()
  expect(blockOf('')).toBeNull()
})
