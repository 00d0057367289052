/**
 * Signatures of matrix products.
 *
 * Source: ONNX opset 21 (MatMul, Gemm); ONNX Runtime contrib operators (FusedMatMul, MatMulNBits, MatMulIntegerToFloat),
 * https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
import { readInt } from '../attributes.js'
import { formatShape } from '../dims.js'
import type { Dim, Shape } from '../graph.js'
import {
  broadcast,
  type Call,
  callError,
  FLOATS,
  microsoftSignature,
  onnxSignature,
  required,
  type Signature,
  typed,
  type ValueType,
} from './signature.js'

/** Batched product of [.., M, N] and [.., N, P] after the flags swapped the last two axes. */
function inferProduct(call: Call): readonly ValueType[] {
  const a = typed(call, 0, FLOATS)
  const b = typed(call, 1, FLOATS)
  if (a.dtype !== b.dtype) throw callError(call, 'two inputs of one dtype')
  if (a.shape.length < 2 || b.shape.length < 2) throw callError(call, 'tensors of two or more dimensions')
  const [rows, inner] = lastTwo(a.shape, readInt(call.attributes, 'transA', 0))
  const [innerB, columns] = lastTwo(b.shape, readInt(call.attributes, 'transB', 0))
  if (inner !== innerB) throw callError(call, `equal inner sizes, not ${inner} and ${innerB},`)
  const batch = broadcast(call, a.shape.slice(0, -2), b.shape.slice(0, -2))
  return [{ dtype: a.dtype, shape: [...batch, rows, columns] }]
}

function inferGemm(call: Call): readonly ValueType[] {
  const result = inferProduct(call)
  if (required(call, 0).shape.length !== 2 || required(call, 1).shape.length !== 2) throw callError(call, 'matrices')
  const bias = call.inputs[2]
  const shape = result[0]?.shape ?? []
  if (bias) {
    const wide = broadcast(call, bias.shape, shape)
    if (wide.length !== 2 || wide.some((dim, axis) => dim !== shape[axis])) {
      throw callError(call, `a third input that broadcasts to ${formatShape(shape)}`)
    }
  }
  return result
}

/** a [.., N] times a block-quantized [columns, N]; attributes K and N are ONNX Runtime's names for these sizes. */
function inferMatMulNBits(call: Call): readonly ValueType[] {
  const a = typed(call, 0, FLOATS)
  typed(call, 1, ['uint8'])
  const inner = readInt(call.attributes, 'K', 0)
  if (a.shape.at(-1) !== inner) throw callError(call, `an input whose last size is K = ${inner}`)
  return [{ dtype: a.dtype, shape: [...a.shape.slice(0, -1), readInt(call.attributes, 'N', 0)] }]
}

/** Integers a [M, K] times integers b [K, N], scaled to floats. */
function inferIntegerProduct(call: Call): readonly ValueType[] {
  const a = typed(call, 0, ['uint8', 'int8'])
  const b = typed(call, 1, ['uint8', 'int8'])
  const [rows, inner, ...moreA] = a.shape
  const [innerB, columns, ...moreB] = b.shape
  if (rows === undefined || columns === undefined || moreA.length + moreB.length > 0) throw callError(call, 'matrices')
  if (inner !== innerB) throw callError(call, `equal inner sizes, not ${inner} and ${innerB},`)
  return [{ dtype: 'float32', shape: [rows, columns] }]
}

function lastTwo(shape: Shape, isTransposed: number): readonly [Dim, Dim] {
  const [rows = 1, columns = 1] = shape.slice(-2)
  return isTransposed === 0 ? [rows, columns] : [columns, rows]
}

export const MATMUL_SIGNATURES: Readonly<Record<string, Signature>> = {
  MatMul: onnxSignature(inferProduct),
  Gemm: onnxSignature(inferGemm),
  FusedMatMul: microsoftSignature(inferProduct),
  // Ours (`graph/ops/attention.ts`): passes on what its first input already is; the others are for its gradient.
  RowAttention: onnxSignature((call) => {
    const { dtype, shape } = typed(call, 0, FLOATS)
    return [{ dtype, shape }]
  }),
  MatMulNBits: microsoftSignature(inferMatMulNBits),
  MatMulIntegerToFloat: microsoftSignature(inferIntegerProduct),
}
