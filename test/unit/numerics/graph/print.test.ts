/**
 * Text dumps. The goldens pin the emitted graphs: a change there is a change of what runs.
 */
import { expect, test } from 'vitest'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { add, mul } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { reshape } from '#numerics/graph/ops/shape.js'
import { optimize } from '#numerics/graph/passes/optimize.js'
import { printGraph } from '#numerics/graph/print.js'
import { expectGolden } from '../../../support/expect-golden.js'
import { buildSmallNetwork } from '../../../support/model/small-network.js'

test('forward and backward of a small network', () => {
  expectGolden('graphs/small-network.txt', printGraph(buildSmallNetwork({ isRecomputed: false }).build()))
})

test('the same with its layers computed again', () => {
  const graph = optimize(buildSmallNetwork({ isRecomputed: true }).build())
  expectGolden('graphs/small-network-recomputed.txt', printGraph(graph))
})

test('loops, external weights and sizes computed at run time', () => {
  const g = new GraphBuilder('loop')
  const x = g.input('x', 'float32', ['B', 'T', 4])
  const w = g.external('w', 'float32', [4], { file: 'weights.bin', offsetBytes: 4096, sizeBytes: 16 })
  const { carried, scanned } = loop(g, {
    count: 'B',
    carried: [g.scalar(0)],
    body: (body, index, [count]) => {
      const row = mul(body, gather(body, x, index), w)
      return { carried: [add(body, count!, body.scalar(1))], scanned: [row] }
    },
  })
  g.output(carried[0]!, 'count')
  g.output(reshape(g, scanned[0]!, ['T', 'B', 4]), 'rows')
  expectGolden('graphs/loop.txt', printGraph(g.build()))
})

test('two builds print the same text', () => {
  const text = (): string => printGraph(buildSmallNetwork({ isRecomputed: true }).build())
  expect(text()).toBe(text())
})
