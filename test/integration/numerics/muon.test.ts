/**
 * Muon against its definition in float64: orthogonal updates of every kind of matrix, three whole steps, and singular values.
 *
 * Tolerance: 1e-4 of a block's norm. Newton-Schulz in float32 magnifies rounding by up to 3.4445 a step where singular values
 * are small, so that elements are not compared one by one.
 */
import { expect, test } from 'vitest'
import {
  buildOrthogonalizeGraph,
  type MuonMatrix,
  muonApply,
  muonMomentum,
  orthogonalName,
} from '../../spark/training/muon.js'
import { normals, runGraph } from '../../support/reference/op-case.js'
import {
  type Matrix,
  type ReferenceMuon,
  referenceMuonStep,
  referenceOrthogonalize,
  singularValues,
} from '../../support/reference/reference-muon.js'
import { type ReferenceTensor, reference } from '../../support/reference/reference-tensor.js'

const MATRICES: readonly MuonMatrix[] = [
  { name: 'wide', columns: 17, blockRows: [6] },
  { name: 'tall', columns: 5, blockRows: [19] },
  { name: 'square', columns: 8, blockRows: [8] },
  { name: 'row', columns: 9, blockRows: [1] },
  // Grouped heads: a square block above two wide ones; and two tall blocks.
  { name: 'qkv', columns: 8, blockRows: [8, 4, 4] },
  { name: 'gate_up', columns: 6, blockRows: [15, 15] },
]

const rowsOf = ({ blockRows }: MuonMatrix): number => blockRows.reduce((sum, rows) => sum + rows, 0)

function tensorOf(matrix: MuonMatrix, seed: string, scale = 1): ReferenceTensor {
  return normals([rowsOf(matrix), matrix.columns], { seed: `${matrix.name} ${seed}`, scale })
}

/** Blocks of a joined matrix, top to bottom. */
function blocksOf({ columns, blockRows }: MuonMatrix, data: ArrayLike<number>): Matrix[] {
  let row = 0
  return blockRows.map((count) => {
    const block = Array.from({ length: count }, (_, r) =>
      Array.from({ length: columns }, (_, c) => data[(row + r) * columns + c]!),
    )
    row += count
    return block
  })
}

function expectNear(actual: Matrix, expected: Matrix, label: string): void {
  const difference = Math.hypot(...actual.flat().map((value, i) => value - expected.flat()[i]!))
  expect(difference / Math.hypot(...expected.flat()), label).toBeLessThan(1e-4)
}

async function orthogonalize(
  inputs: Readonly<Record<string, ReferenceTensor>>,
): Promise<(matrix: MuonMatrix) => Float32Array> {
  const result = await runGraph(buildOrthogonalizeGraph(MATRICES), inputs)
  return ({ name }) => result[orthogonalName(name)]!.data as Float32Array
}

test('updates are those of the definition, block by block, whatever their size', async () => {
  for (const scale of [1, 1e-4]) {
    const inputs = Object.fromEntries(MATRICES.map((matrix) => [matrix.name, tensorOf(matrix, 'update', scale)]))
    const result = await orthogonalize(inputs)
    for (const matrix of MATRICES) {
      const expected = blocksOf(matrix, inputs[matrix.name]!.data)
      blocksOf(matrix, result(matrix)).forEach((block, n) => {
        expectNear(block, referenceOrthogonalize(expected[n]!), `${matrix.name} block ${n}`)
      })
    }
  }
})

test('singular values lie between 0.3 and 1.7 of the scale', async () => {
  const inputs = Object.fromEntries(MATRICES.map((matrix) => [matrix.name, tensorOf(matrix, 'singular')]))
  const result = await orthogonalize(inputs)
  for (const matrix of MATRICES) {
    for (const block of blocksOf(matrix, result(matrix))) {
      const scale = 0.2 * Math.sqrt(Math.max(block.length, matrix.columns))
      const values = singularValues(block)
      expect(values).toHaveLength(Math.min(block.length, matrix.columns))
      for (const value of values) {
        expect(value / scale, matrix.name).toBeGreaterThan(0.3)
        expect(value / scale, matrix.name).toBeLessThan(1.7)
      }
    }
  }
})

test('a matrix of zeros stays zeros', async () => {
  const inputs = Object.fromEntries(
    MATRICES.map((matrix) => [
      matrix.name,
      reference('float32', [rowsOf(matrix), matrix.columns], new Float64Array(rowsOf(matrix) * matrix.columns)),
    ]),
  )
  const result = await orthogonalize(inputs)
  for (const matrix of MATRICES) expect(result(matrix).every((value) => value === 0)).toBe(true)
})

test('three steps with momentum, decay and changing rates are those of the definition', async () => {
  const momentum = { momentum: new Map<string, Float32Array>() }
  const weights = new Map(MATRICES.map((matrix) => [matrix.name, Float32Array.from(tensorOf(matrix, 'weights').data)]))
  const references = new Map(
    MATRICES.map((matrix) => [
      matrix.name,
      blocksOf(matrix, weights.get(matrix.name)!).map(
        (block): ReferenceMuon => ({ weights: block, buffer: block.map((row) => row.map(() => 0)) }),
      ),
    ]),
  )
  for (let step = 0; step < 3; step++) {
    const options = { learningRate: 0.1 / (step + 1), weightDecay: 0.2 }
    const gradients = new Map(MATRICES.map((matrix) => [matrix.name, tensorOf(matrix, `gradient ${step}`, 0.1)]))
    const updates = MATRICES.map((matrix) => {
      const { data, shape } = gradients.get(matrix.name)!
      return [
        matrix.name,
        reference('float32', shape, muonMomentum(momentum, matrix.name, Float32Array.from(data), {})),
      ]
    })
    const result = await orthogonalize(Object.fromEntries(updates))
    for (const matrix of MATRICES) {
      const gradient = blocksOf(matrix, gradients.get(matrix.name)!.data)
      references.get(matrix.name)!.forEach((state, n) => {
        referenceMuonStep(state, gradient[n]!, options)
      })
      muonApply(weights.get(matrix.name)!, result(matrix), options)
    }
  }
  for (const matrix of MATRICES) {
    const buffers = blocksOf(matrix, momentum.momentum.get(matrix.name)!)
    blocksOf(matrix, weights.get(matrix.name)!).forEach((block, n) => {
      const expected = references.get(matrix.name)![n]!
      expectNear(block, expected.weights, `weights of ${matrix.name}`)
      expectNear(buffers[n]!, expected.buffer, `momentum of ${matrix.name}`)
    })
  }
})
