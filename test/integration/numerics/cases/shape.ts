/**
 * Cases of operators that move, cut, join or repeat elements, with known and with symbolic sizes.
 */
import { int } from '#numerics/graph/attributes.js'
import { mul } from '#numerics/graph/ops/elementwise.js'
import {
  concat,
  expand,
  pad,
  reshape,
  shapeOf,
  slice,
  split,
  squeeze,
  transpose,
  unsqueeze,
} from '#numerics/graph/ops/shape.js'
import { normals, opCase } from '../../../support/reference/op-case.js'

const x = normals([2, 3, 4])
const symbols = { x: ['B', 'T', 4] }

/** Registers the cases. */
export function shapeCases(): void {
  opCase('Reshape', { inputs: { x }, build: (g, v) => reshape(g, v['x']!, [6, 2, 2]) })
  opCase('Reshape', {
    about: 'rows of a symbolic batch',
    inputs: { x },
    symbols,
    build: (g, v) => reshape(g, v['x']!, [-1, 4]),
  })
  opCase('Reshape', {
    about: 'symbolic sizes that change places',
    inputs: { x },
    symbols,
    build: (g, v) => reshape(g, v['x']!, ['T', 2, 'B', 2]),
  })
  opCase('Reshape', {
    about: 'a product taken apart',
    inputs: { x: normals([6, 4]), like: normals([2, 3], { seed: 'like' }) },
    symbols: { x: ['B*T', 4], like: ['B', 'T'] },
    build: (g, v) => mul(g, reshape(g, v['x']!, ['B', 'T', 4]), unsqueeze(g, v['like']!, [2])),
  })
  opCase('Transpose', { inputs: { x }, symbols, build: (g, v) => transpose(g, v['x']!, [2, 0, 1]) })
  opCase('Unsqueeze', { inputs: { x }, build: (g, v) => unsqueeze(g, v['x']!, [0, -1]) })
  opCase('Squeeze', { inputs: { x: normals([2, 1, 3, 1]) }, build: (g, v) => squeeze(g, v['x']!, [1, -1]) })
  opCase('Concat', {
    inputs: { x, y: normals([2, 2, 4], { seed: 'y' }), z: normals([2, 1, 4], { seed: 'z' }) },
    build: (g, v) => concat(g, [v['x']!, v['y']!, v['z']!], 1),
  })
  opCase('Concat', {
    about: 'symbolic sizes add up',
    inputs: { x, y: normals([2, 2, 4], { seed: 'y' }) },
    symbols: { x: ['B', 'S', 4], y: ['B', 'C', 4] },
    build: (g, v) => g.expectShape(concat(g, [v['x']!, v['y']!], 1), ['B', 'C+S', 4]),
  })
  opCase('Concat', {
    about: 'the gradient of one operand alone',
    inputs: { x, y: normals([2, 2, 4], { seed: 'y' }) },
    symbols: { x: ['B', 'S', 4], y: ['B', 'C', 4] },
    build: (g, v) => concat(g, [v['x']!, v['y']!], 1),
    gradients: ['y'],
  })
  opCase('Split', { inputs: { x }, symbols, build: (g, v) => split(g, v['x']!, [1, 3], 2) })
  opCase('Split', {
    about: 'a part nobody uses',
    inputs: { x },
    build: (g, v) => split(g, v['x']!, [1, 1, 2], 2).filter((_, index) => index !== 1),
  })
  opCase('Split', {
    about: 'symbolic parts',
    inputs: { x: normals([5, 2]), like: normals([2], { seed: 'like' }), other: normals([3], { seed: 'other' }) },
    symbols: { x: ['C+S', 2], like: ['C'], other: ['S'] },
    build: (g, v) => [
      ...split(g, v['x']!, ['C', 'S'], 0),
      mul(g, v['like']!, v['like']!),
      mul(g, v['other']!, v['other']!),
    ],
  })
  opCase('Slice', { inputs: { x }, symbols, build: (g, v) => slice(g, v['x']!, { axis: 2, start: 1, end: 3 }) })
  opCase('Slice', { about: 'from the end', inputs: { x }, build: (g, v) => slice(g, v['x']!, { axis: 1, start: -2 }) })
  opCase('Slice', {
    about: 'the first of a symbolic axis',
    inputs: { x },
    symbols,
    build: (g, v) => slice(g, v['x']!, { axis: 1, end: 1 }),
  })
  opCase('Slice', {
    about: 'all but the first of a symbolic axis',
    inputs: { x },
    symbols,
    build: (g, v) => g.expectShape(slice(g, v['x']!, { axis: 1, start: 1 }), ['B', 'T-1', 4]),
  })
  opCase('Slice', {
    about: 'symbolic bounds',
    inputs: { x: normals([5, 2]), like: normals([2], { seed: 'like' }), other: normals([3], { seed: 'other' }) },
    symbols: { x: ['C+S', 2], like: ['C'], other: ['S'] },
    build: (g, v) => [
      slice(g, v['x']!, { axis: 0, start: 'C' }),
      mul(g, v['like']!, v['like']!),
      mul(g, v['other']!, v['other']!),
    ],
  })
  opCase('Pad', { inputs: { x }, symbols, build: (g, v) => pad(g, v['x']!, { axis: 1, before: 1, after: 2 }) })
  opCase('Expand', { inputs: { x: normals([3, 1]) }, build: (g, v) => expand(g, v['x']!, [2, 3, 4]) })
  opCase('Expand', {
    about: 'to symbolic sizes',
    inputs: { x: normals([2, 1, 4]), like: normals([3], { seed: 'like' }) },
    symbols: { x: ['B', 1, 4], like: ['T'] },
    build: (g, v) => [expand(g, v['x']!, ['B', '2*T', 4]), mul(g, v['like']!, v['like']!)],
  })
  opCase('Shape', { inputs: { x }, symbols, build: (g, v) => shapeOf(g, v['x']!) })
  opCase('Shape', { about: 'one axis', inputs: { x }, symbols, attributes: { start: int(1), end: int(2) } })
  opCase('Size', { inputs: { x }, symbols })
  opCase('ConstantOfShape', {
    inputs: { x },
    build: (g, v) => mul(g, v['x']!, g.node('ConstantOfShape', [g.int64s([2, 3, 4])])[0]!),
  })
  opCase('Tile', {
    inputs: { x },
    symbols,
    build: (g, v) => g.node('Tile', [v['x']!, g.int64s([1, 2, 1])])[0]!,
    gradients: [],
  })
  opCase('Range', {
    inputs: { x: normals([3]) },
    build: (g) =>
      g.node(
        'Range',
        [g.scalar(1), g.scalar(4), g.scalar(0.5)],
        {},
        { outputs: [{ dtype: 'float32', shape: [6] }] },
      )[0]!,
    gradients: [],
  })
}
