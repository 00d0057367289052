/**
 * Cases of operators that look up, scatter, sort and count by index, and of Loop and If. Indices repeat, so gradients have to add up.
 */
import { branch } from '#numerics/graph/ops/branch.js'
import { add, exp, mul } from '#numerics/graph/ops/elementwise.js'
import {
  cumSum,
  gather,
  gatherElements,
  gatherND,
  oneHot,
  scatterElements,
  scatterND,
  topK,
} from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { integers, normals, opCase } from '../../../support/reference/op-case.js'
import { reference } from '../../../support/reference/reference-tensor.js'

const data = normals([4, 3])

/** Registers the cases. */
export function indexingCases(): void {
  opCase('Gather', {
    about: 'embedding rows, repeated',
    inputs: { data, indices: integers([2, 3], [0, 3, 3, 1, 0, 3]) },
    symbols: { indices: ['B', 'T'] },
    build: (g, v) => gather(g, v['data']!, v['indices']!),
  })
  opCase('Gather', {
    about: 'the middle axis, negative indices',
    inputs: { data: normals([2, 3, 2]), indices: integers([4], [0, -1, 2, 1]) },
    build: (g, v) => gather(g, v['data']!, v['indices']!, 1),
  })
  opCase('Gather', {
    about: 'one index removes the axis',
    inputs: { data, indices: integers([], [2]) },
    build: (g, v) => gather(g, v['data']!, v['indices']!),
  })
  opCase('Gather', {
    about: 'an embedding too large for constant zeros',
    inputs: { data: normals([1100, 4]), indices: integers([3], [1099, 7, 7]) },
    build: (g, v) => gather(g, v['data']!, v['indices']!),
    gradientTolerance: { relative: 1e-5, absolute: 1e-5 },
  })
  const places = integers([4, 2], [0, 2, 1, 1, 2, 0, 2, 2])
  opCase('GatherElements', {
    inputs: { data, places },
    build: (g, v) => gatherElements(g, v['data']!, v['places']!, 1),
  })
  opCase('GatherND', {
    inputs: { data: normals([3, 2, 2]), places: integers([3, 2], [0, 1, 2, 0, 0, 1]) },
    build: (g, v) => gatherND(g, v['data']!, v['places']!),
  })
  const updates = normals([4, 2], { seed: 'updates' })
  opCase('ScatterElements', {
    about: 'adding, with repeated places',
    inputs: { data, places, updates },
    build: (g, v) => scatterElements(g, v['data']!, v['places']!, v['updates']!, { axis: 1, reduction: 'add' }),
  })
  opCase('ScatterElements', {
    about: 'replacing',
    inputs: { data, places: integers([4, 2], [0, 2, 1, 0, 2, 0, 1, 2]), updates },
    build: (g, v) => scatterElements(g, v['data']!, v['places']!, v['updates']!, { axis: 1 }),
  })
  opCase('ScatterND', {
    inputs: { data, places: integers([2, 1], [3, 1]), updates: normals([2, 3], { seed: 'updates' }) },
    build: (g, v) => scatterND(g, v['data']!, v['places']!, v['updates']!),
  })
  opCase('TopK', {
    inputs: { x: normals([3, 5]) },
    symbols: { x: ['B', 5] },
    build: (g, v) => {
      const { values, indices } = topK(g, v['x']!, 2)
      return [values, indices]
    },
  })
  opCase('OneHot', {
    inputs: { indices: integers([2, 2], [0, 3, 1, 1]) },
    build: (g, v) => oneHot(g, v['indices']!, 4),
  })
  for (const isExclusive of [false, true]) {
    for (const isReversed of [false, true]) {
      opCase('CumSum', {
        about: `isExclusive ${isExclusive}, isReversed ${isReversed}`,
        inputs: { x: data },
        build: (g, v) => cumSum(g, v['x']!, 0, { isExclusive, isReversed }),
      })
    }
  }
  loopCases()
  branchCases()
}

function loopCases(): void {
  opCase('Loop', {
    about: 'carries a sum and stacks what each round makes, over a symbolic count',
    inputs: { x: data, factor: normals([3], { seed: 'factor' }) },
    symbols: { x: ['Q', 3] },
    build: (g, v) => {
      const start = mul(g, v['factor']!, g.scalar(0))
      const { carried, scanned } = loop(g, {
        count: 'Q',
        carried: [start],
        body: (body, index, [total]) => {
          const row = mul(body, gather(body, v['x']!, index), v['factor']!)
          const next = add(body, total!, exp(body, row))
          return { carried: [next], scanned: [row, total!] }
        },
      })
      return [...carried, ...scanned]
    },
    gradients: [],
  })
}

function branchCases(): void {
  for (const isTrue of [1, 0]) {
    opCase('If', {
      about: `the body for ${isTrue === 1}, which uses values around it`,
      inputs: { x: data, condition: reference('bool', [], [isTrue]) },
      symbols: { x: ['Q', 3] },
      build: (g, v) => {
        const doubled = add(g, v['x']!, v['x']!)
        return branch(g, v['condition']!, {
          whenTrue: (body) => [exp(body, doubled), mul(body, doubled, v['x']!)],
          whenFalse: (body) => [add(body, doubled, v['x']!), doubled],
        })
      },
      gradients: [],
    })
  }
}
