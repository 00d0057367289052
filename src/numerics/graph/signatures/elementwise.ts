/**
 * Signatures of operators that work element by element, with broadcasting.
 *
 * Source: ONNX operator specification, opset 21.
 */
import { dtypeFromOnnx } from '#numerics/onnx/data-types.js'
import type { DType } from '#numerics/tensor/dtype.js'
import { readInt } from '../attributes.js'
import {
  broadcast,
  type Call,
  callError,
  FLOATS,
  INTEGERS,
  microsoftSignature,
  onnxSignature,
  required,
  type Signature,
  typed,
  type ValueType,
} from './signature.js'

const NUMBERS: readonly DType[] = [...FLOATS, ...INTEGERS]
const ANY: readonly DType[] = [...NUMBERS, 'bool']

function unary(dtypes: readonly DType[]): Signature {
  return onnxSignature((call) => {
    const { dtype, shape } = typed(call, 0, dtypes)
    return [{ dtype, shape }]
  })
}

/** Two operands, or more for Min and Max. */
function binary(dtypes: readonly DType[], result?: DType): Signature {
  return onnxSignature((call) => {
    const { dtype, shape } = typed(call, 0, dtypes)
    const rest = call.inputs.slice(1).map((_, index) => typed(call, index + 1, [dtype]).shape)
    if (rest.length === 0) throw callError(call, 'two inputs of one dtype')
    return [{ dtype: result ?? dtype, shape: rest.reduce((wide, other) => broadcast(call, wide, other), shape) }]
  })
}

/** Pow alone may mix dtypes; the base decides. */
function inferPow(call: Call): readonly ValueType[] {
  const base = typed(call, 0, NUMBERS)
  const exponent = typed(call, 1, NUMBERS)
  return [{ dtype: base.dtype, shape: broadcast(call, base.shape, exponent.shape) }]
}

export const ELEMENTWISE_SIGNATURES: Readonly<Record<string, Signature>> = {
  Add: binary(NUMBERS),
  Sub: binary(NUMBERS),
  Mul: binary(NUMBERS),
  Div: binary(NUMBERS),
  Min: binary(NUMBERS),
  Max: binary(NUMBERS),
  Pow: onnxSignature(inferPow),
  Equal: binary(ANY, 'bool'),
  Less: binary(NUMBERS, 'bool'),
  Greater: binary(NUMBERS, 'bool'),
  LessOrEqual: binary(NUMBERS, 'bool'),
  GreaterOrEqual: binary(NUMBERS, 'bool'),
  And: binary(['bool']),
  Or: binary(['bool']),
  Not: unary(['bool']),
  Neg: unary(NUMBERS),
  Abs: unary(NUMBERS),
  Sign: unary(NUMBERS),
  Exp: unary(FLOATS),
  Log: unary(FLOATS),
  Sqrt: unary(FLOATS),
  Sin: unary(FLOATS),
  Cos: unary(FLOATS),
  Reciprocal: unary(FLOATS),
  Sigmoid: unary(FLOATS),
  Tanh: unary(FLOATS),
  Identity: unary(ANY),
  StopGradient: unary(ANY),
  IsNaN: onnxSignature((call) => [{ dtype: 'bool', shape: typed(call, 0, FLOATS).shape }]),
  Cast: onnxSignature((call) => {
    const dtype = dtypeFromOnnx(readInt(call.attributes, 'to', 0))
    if (dtype === null) throw callError(call, 'a known dtype in `to`')
    return [{ dtype, shape: required(call, 0).shape }]
  }),
  Clip: onnxSignature((call) => {
    const { dtype, shape } = typed(call, 0, NUMBERS)
    for (const bound of [call.inputs[1], call.inputs[2]]) {
      if (bound && (bound.dtype !== dtype || bound.shape.length > 0)) throw callError(call, `scalar bounds of ${dtype}`)
    }
    return [{ dtype, shape }]
  }),
  Where: onnxSignature((call) => {
    const condition = typed(call, 0, ['bool'])
    const a = required(call, 1)
    const b = required(call, 2)
    if (a.dtype !== b.dtype) throw callError(call, 'two branches of one dtype')
    return [{ dtype: a.dtype, shape: broadcast(call, condition.shape, broadcast(call, a.shape, b.shape)) }]
  }),
  QuickGelu: microsoftSignature((call) => {
    const { dtype, shape } = typed(call, 0, FLOATS)
    return [{ dtype, shape }]
  }),
}
