/**
 * Quantized weights mean to ONNX Runtime's MatMulNBits what they mean to us.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createRng } from '../../../src/base/util/rng.js'
import { dequantizeNBits, quantizeNBits } from '../../../src/model/weights/quantize.js'
import { GraphBuilder } from '../../../src/numerics/graph/builder.js'
import { matmulNBits } from '../../../src/numerics/graph/ops/matmul.js'
import { writeOnnxModel } from '../../../src/numerics/graph/to-onnx.js'
import { createOrtRuntime } from '../../../src/numerics/runtime/ort-runtime.js'
import { float32Tensor } from '../../../src/numerics/tensor/host-tensor.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

interface Case {
  readonly bits: 8 | 4
  readonly rows: number
  readonly columns: number
  readonly blockSize: number
  readonly batch: number
}

async function operatorProduct(input: Float32Array, weight: Float32Array, sizes: Case & { accuracyLevel: number }) {
  const { bits, rows, columns, blockSize, batch, accuracyLevel } = sizes
  const { quantized, scales } = quantizeNBits(weight, rows, columns, bits, blockSize)
  const blocks = Math.ceil(columns / blockSize)
  const g = new GraphBuilder('quantized')
  const x = g.input('x', 'float32', [batch, columns])
  const shape = [rows, blocks, (blockSize * bits) / 8]
  const matrix = {
    quantized: g.constant({ dtype: 'uint8', shape, data: quantized }),
    scales: g.constant(float32Tensor(scales, [rows * blocks])),
    rows,
    columns,
    bits,
    blockSize,
    accuracyLevel,
  }
  g.output(matmulNBits(g, x, matrix), 'y')
  const path = join(await temporaryDirectory(), 'model.onnx')
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  const { y } = await session.run({ x: float32Tensor(input, [batch, columns]) })
  await session.release()
  return y!.data as Float32Array
}

/** x · Wᵀ with the dequantized W, in double precision, and the sum of magnitudes that bounds its rounding. */
function exactProduct(input: Float32Array, weight: Float32Array, sizes: Case) {
  const { rows, columns, batch } = sizes
  const matrix = dequantizeNBits(quantizeNBits(weight, rows, columns, sizes.bits, sizes.blockSize), sizes)
  const product = new Float64Array(batch * rows)
  const magnitude = new Float64Array(batch * rows)
  for (let b = 0; b < batch; b++) {
    for (let n = 0; n < rows; n++) {
      for (let k = 0; k < columns; k++) {
        const term = input[b * columns + k] * matrix[n * columns + k]
        product[b * rows + n] += term
        magnitude[b * rows + n] += Math.abs(term)
      }
    }
  }
  return { product, magnitude }
}

/** The largest error relative to the sum of magnitudes. */
function worstError(actual: Float32Array, product: Float64Array, magnitude: Float64Array): number {
  return actual.reduce((worst, value, i) => Math.max(worst, Math.abs(value - product[i]) / magnitude[i]), 0)
}

function normal(length: number, seed: string): Float32Array {
  const rng = createRng(seed)
  return Float32Array.from({ length }, () => rng.normal())
}

const CASES: readonly Case[] = [
  { bits: 8, rows: 48, columns: 96, blockSize: 32, batch: 1 },
  { bits: 8, rows: 33, columns: 128, blockSize: 32, batch: 5 },
  { bits: 4, rows: 48, columns: 96, blockSize: 32, batch: 1 },
  { bits: 4, rows: 33, columns: 128, blockSize: 32, batch: 5 },
  { bits: 4, rows: 16, columns: 80, blockSize: 32, batch: 2 },
  { bits: 8, rows: 16, columns: 80, blockSize: 32, batch: 2 },
  { bits: 4, rows: 16, columns: 128, blockSize: 64, batch: 2 },
]
const NAME = '$bits bits, [$batch, $columns] by [$rows, $columns], block $blockSize'

test.each(CASES)(`float activations, ${NAME}: the product of the dequantized matrix`, async (sizes) => {
  const [input, weight] = [normal(sizes.batch * sizes.columns, 'x'), normal(sizes.rows * sizes.columns, 'w')]
  const actual = await operatorProduct(input, weight, { ...sizes, accuracyLevel: 0 })
  const { product, magnitude } = exactProduct(input, weight, sizes)
  expect(actual.length).toBe(product.length)
  expect(worstError(actual, product, magnitude)).toBeLessThan(1e-6)
})

test.each(CASES.slice(0, 4))(`int8 activations, ${NAME}: the same within their rounding`, async (sizes) => {
  const [input, weight] = [normal(sizes.batch * sizes.columns, 'x'), normal(sizes.rows * sizes.columns, 'w')]
  const actual = await operatorProduct(input, weight, { ...sizes, accuracyLevel: 4 })
  const { product, magnitude } = exactProduct(input, weight, sizes)
  // Each activation is off by at most half a step of its block's extreme, 1/254.
  expect(worstError(actual, product, magnitude)).toBeLessThan(0.02)
})
