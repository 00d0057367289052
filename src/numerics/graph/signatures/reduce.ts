/**
 * Signatures of reductions and of operators that normalize along an axis.
 *
 * Source: ONNX opset 21; ONNX Runtime contrib operators (SimplifiedLayerNormalization, SkipSimplifiedLayerNormalization,
 * RotaryEmbedding),
 * https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
import { readInt } from '../attributes.js'
import type { Shape } from '../graph.js'
import {
  type Call,
  callError,
  constantInts,
  FLOATS,
  INTEGERS,
  normalizeAxis,
  onnxSignature,
  required,
  type Signature,
  typed,
  type ValueType,
  withDim,
} from './signature.js'

function inferReduction(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = typed(call, 0, [...FLOATS, ...INTEGERS])
  const axes = constantInts(call, 1)
  if (axes === null) return null
  const reduced = axes.map((axis) => normalizeAxis(call, axis, shape.length))
  return [{ dtype, shape: removeAxes(shape, reduced, readInt(call.attributes, 'keepdims', 1) === 1) }]
}

function removeAxes(shape: Shape, axes: readonly number[], isKept: boolean): Shape {
  if (isKept) return shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim))
  return shape.filter((_, axis) => !axes.includes(axis))
}

function inferAlongAxis(call: Call): readonly ValueType[] {
  const { dtype, shape } = typed(call, 0, FLOATS)
  normalizeAxis(call, readInt(call.attributes, 'axis', -1), shape.length)
  return [{ dtype, shape }]
}

/** Checks a norm weight of the last axis and returns the types of the normed tensor and of 1 / rms. */
function normTypes(call: Call, weightIndex: number): readonly [ValueType, ValueType] {
  const { dtype, shape } = typed(call, 0, FLOATS)
  const weight = typed(call, weightIndex, [dtype])
  if (weight.shape.length !== 1 || weight.shape[0] !== shape.at(-1)) throw callError(call, 'a weight of the last axis')
  return [
    { dtype, shape },
    { dtype: 'float32', shape: withDim(shape, shape.length - 1, 1) },
  ]
}

function inferSkipNorm(call: Call): readonly ValueType[] {
  const [normed, scale] = normTypes(call, 2)
  const skip = required(call, 1)
  if (skip.shape.some((dim, axis) => dim !== normed.shape[axis])) throw callError(call, 'two inputs of one shape')
  return [normed, scale, scale, normed]
}

function inferRotary(call: Call): readonly ValueType[] {
  const { dtype, shape } = typed(call, 0, FLOATS)
  if (shape.length !== 3 && shape.length !== 4) throw callError(call, 'an input [B, S, E] or [B, H, S, D]')
  typed(call, 1, ['int64'])
  typed(call, 2, [dtype])
  typed(call, 3, [dtype])
  return [{ dtype, shape }]
}

export const REDUCE_SIGNATURES: Readonly<Record<string, Signature>> = {
  ReduceSum: onnxSignature(inferReduction),
  ReduceMean: onnxSignature(inferReduction),
  ReduceMax: onnxSignature(inferReduction),
  ArgMax: onnxSignature((call) => {
    const { shape } = required(call, 0)
    const axis = normalizeAxis(call, readInt(call.attributes, 'axis', 0), shape.length)
    const isKept = readInt(call.attributes, 'keepdims', 1) === 1
    return [{ dtype: 'int64', shape: removeAxes(shape, [axis], isKept) }]
  }),
  Softmax: onnxSignature(inferAlongAxis),
  LogSoftmax: onnxSignature(inferAlongAxis),
  // In ONNX's own domain although ONNX never defined it: ONNX Runtime registered the name there early on.
  SimplifiedLayerNormalization: { domain: '', optionalOutputs: [1], infer: (call) => normTypes(call, 1) },
  SkipSimplifiedLayerNormalization: { domain: 'com.microsoft', optionalOutputs: [1, 2, 3], infer: inferSkipNorm },
  RotaryEmbedding: { domain: 'com.microsoft', infer: inferRotary },
}
