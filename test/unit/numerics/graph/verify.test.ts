/**
 * Broken graphs are found, whatever broke them.
 */
import { describe, expect, test } from 'vitest'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Node, Value } from '#numerics/graph/graph.js'
import { add, exp, mul } from '#numerics/graph/ops/elementwise.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { verifyGraph } from '#numerics/graph/verify.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { buildSmallNetwork } from '../../../support/model/small-network.js'

function twoNodes(): Graph {
  const g = new GraphBuilder('two')
  const x = g.input('x', 'float32', ['B', 2])
  g.output(mul(g, exp(g, x), g.constant(float32Tensor(Float32Array.of(1, 2), [2]), 'w')), 'y')
  return g.build()
}

function withNode(graph: Graph, index: number, change: (node: Node) => Node): Graph {
  return { ...graph, nodes: graph.nodes.map((node, at) => (at === index ? change(node) : node)) }
}

test('what the builder makes is sound, with bodies and backward passes', () => {
  verifyGraph(twoNodes())
  verifyGraph(buildSmallNetwork({ isRecomputed: true }).build())
})

describe('refuses', () => {
  const cases: Record<string, readonly [Graph, RegExp]> = {
    'nodes out of order': [{ ...twoNodes(), nodes: twoNodes().nodes.toReversed() }, /used before it is made/],
    'a wrong shape': [
      withNode(twoNodes(), 0, (node) => ({ ...node, outputs: [{ ...(node.outputs[0] as Value), shape: ['B', 3] }] })),
      /output 0 should be float32 \[B, 2\]: %exp_1/,
    ],
    'a wrong dtype': [
      withNode(twoNodes(), 0, (node) => ({ ...node, outputs: [{ ...(node.outputs[0] as Value), dtype: 'int32' }] })),
      /output 0 should be float32/,
    ],
    'a name made twice': [
      withNode(twoNodes(), 0, (node) => ({ ...node, outputs: [{ ...(node.outputs[0] as Value), name: 'x' }] })),
      /makes %x twice/,
    ],
    'an output nobody makes': [{ ...twoNodes(), nodes: [] }, /output "y" of graph "two" is never made/],
    'one output twice': [
      { ...twoNodes(), outputs: [...twoNodes().outputs, ...twoNodes().outputs] },
      /never made|twice/,
    ],
    'a constant of another size': [
      {
        ...twoNodes(),
        initializers: twoNodes().initializers.map((initializer) => ({
          kind: 'inline' as const,
          value: initializer.value,
          data: float32Tensor(Float32Array.of(1), [1]),
        })),
      },
      /does not hold float32 \[2\]/,
    ],
    'a body that uses what is not made': [bodyBeforeItsValue(), /used in a body before it is made/],
  }
  test.each(Object.entries(cases))('%s', (_, [graph, message]) => {
    expect(() => verifyGraph(graph)).toThrow(message)
  })
})

function bodyBeforeItsValue(): Graph {
  const g = new GraphBuilder('early')
  const x = g.input('x', 'float32', [2])
  const doubled = add(g, x, x)
  const { scanned } = loop(g, { count: 2, carried: [], body: (body) => ({ scanned: [exp(body, doubled)] }) })
  g.output(scanned[0]!, 'y')
  const graph = g.build()
  return { ...graph, nodes: graph.nodes.toReversed() }
}
