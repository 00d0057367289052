/**
 * Cases of matrix products: every combination of flags, batches that broadcast, quantized weights.
 */
import { fusedMatmul, gemm, matmul, matmulNBits } from '#numerics/graph/ops/matmul.js'
import { normals, opCase } from '../../../support/reference/op-case.js'
import { type ReferenceTensor, reference } from '../../../support/reference/reference-tensor.js'

const TOLERANCE = { relative: 1e-5, absolute: 1e-5 }

/** Registers the cases. */
export function matmulCases(): void {
  opCase('MatMul', {
    about: 'matrices',
    inputs: { a: normals([3, 4]), b: normals([4, 2], { seed: 'b' }) },
    build: (g, { a, b }) => matmul(g, a!, b!),
  })
  opCase('MatMul', {
    about: 'a symbolic batch times one matrix',
    inputs: { a: normals([2, 3, 4]), b: normals([4, 2], { seed: 'b' }) },
    symbols: { a: ['B', 'T', 4] },
    build: (g, { a, b }) => matmul(g, a!, b!),
  })
  opCase('MatMul', {
    about: 'batches that broadcast',
    inputs: { a: normals([2, 1, 3, 4]), b: normals([3, 4, 2], { seed: 'b' }) },
    build: (g, { a, b }) => matmul(g, a!, b!),
  })
  for (const transA of [false, true]) {
    for (const transB of [false, true]) {
      const flags = { transA, transB, alpha: 0.5 }
      const about = `transA ${transA}, transB ${transB}`
      const matrices = { a: normals(transA ? [4, 3] : [3, 4]), b: normals(transB ? [2, 4] : [4, 2], { seed: 'b' }) }
      opCase('Gemm', {
        about: `${about}, with a bias`,
        inputs: { ...matrices, c: normals([2], { seed: 'c' }) },
        build: (g, { a, b, c }) => gemm(g, a!, b!, { ...flags, c: c!, beta: 0.25 }),
        tolerance: TOLERANCE,
      })
      opCase('FusedMatMul', {
        about: `${about}, matrices`,
        inputs: matrices,
        build: (g, { a, b }) => fusedMatmul(g, a!, b!, flags),
        tolerance: TOLERANCE,
      })
      opCase('FusedMatMul', {
        about: `${about}, equal batches`,
        inputs: { a: stacked(matrices.a), b: stacked(matrices.b) },
        symbols: { a: ['B', ...matrices.a.shape], b: ['B', ...matrices.b.shape] },
        build: (g, { a, b }) => fusedMatmul(g, a!, b!, flags),
        tolerance: TOLERANCE,
      })
      opCase('FusedMatMul', {
        about: `${about}, a batch times one matrix`,
        inputs: { a: stacked(matrices.a), b: matrices.b },
        build: (g, { a, b }) => fusedMatmul(g, a!, b!, flags),
        tolerance: TOLERANCE,
      })
    }
  }
  opCase('Gemm', {
    about: 'without a bias, a symbolic height',
    inputs: { a: normals([3, 4]), b: normals([2, 4], { seed: 'b' }) },
    symbols: { a: ['M', 4] },
    build: (g, { a, b }) => gemm(g, a!, b!, { transB: true }),
  })
  opCase('Gemm', {
    about: 'added to a full matrix',
    inputs: { a: normals([3, 4]), b: normals([2, 4], { seed: 'b' }), c: normals([3, 2], { seed: 'c' }) },
    build: (g, { a, b, c }) => gemm(g, a!, b!, { transB: true, alpha: 2, c: c! }),
  })
  opCase('MatMulIntegerToFloat', {
    about: 'a scale per column of the weight',
    inputs: {
      a: codes('uint8', [3, 8], 100),
      b: codes('int8', [8, 4], 0),
      aScale: reference('float32', [], [0.5]),
      bScale: reference('float32', [4], [0.1, 0.2, 0.05, 1]),
      aZero: reference('uint8', [], [100]),
    },
    build: (g, { a, b, aScale, bScale, aZero }) =>
      g.node(
        'MatMulIntegerToFloat',
        [a!, b!, aScale!, bScale!, aZero!],
        {},
        { outputs: [{ dtype: 'float32', shape: [3, 4] }] },
      )[0]!,
    gradients: [],
  })
  for (const bits of [4, 8] as const) {
    opCase('MatMulNBits', {
      about: `${bits} bits`,
      inputs: {
        x: normals([3, 64]),
        q: bytes([5, 2, (32 * bits) / 8]),
        s: normals([5, 2], { seed: 's', scale: 0.02 }),
      },
      build: (g, { x, q, s }) =>
        matmulNBits(g, x!, { quantized: q!, scales: s!, rows: 5, columns: 64, bits, blockSize: 32, accuracyLevel: 0 }),
      tolerance: { relative: 1e-4, absolute: 1e-3 },
      gradients: [],
    })
  }
}

/** Codes around a zero point, small enough that no processor's pairwise sums saturate. */
function codes(dtype: 'uint8' | 'int8', shape: readonly number[], zero: number): ReferenceTensor {
  const count = shape.reduce((a, b) => a * b, 1)
  return reference(
    dtype,
    shape,
    Array.from({ length: count }, (_, i) => zero + ((i * 29 + 7) % 41) - 20),
  )
}

/** Two different copies of a matrix on top of each other. */
function stacked(matrix: ReferenceTensor): ReferenceTensor {
  const data = [...matrix.data, ...matrix.data.map((value) => Math.fround(value * -0.7 + 0.1))]
  return reference('float32', [2, ...matrix.shape], data)
}

function bytes(shape: readonly number[]): ReferenceTensor {
  const count = shape.reduce((a, b) => a * b, 1)
  return reference(
    'uint8',
    shape,
    Array.from({ length: count }, (_, i) => (i * 37 + 11) % 256),
  )
}
