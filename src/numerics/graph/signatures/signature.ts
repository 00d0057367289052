/**
 * What an operator's signature is, and the checks signatures share.
 *
 * A signature tells dtype and shape of the outputs from the inputs, and refuses inputs that do not fit. It says nothing of values.
 */
import { GraphError } from '#base/errors/errors.js'
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { Attributes } from '../attributes.js'
import { formatShape } from '../dims.js'
import type { Dim, Node, Shape, Value } from '../graph.js'

export interface ValueType {
  readonly dtype: DType
  readonly shape: Shape
}

/** A node about to be made. */
export interface Call {
  readonly op: string
  readonly inputs: readonly (Value | null)[]
  readonly attributes: Attributes
  /** The tensor behind a value if it is an inline constant, else null. */
  readonly constantOf: (value: Value) => HostTensor | null
}

/** One operator: where it is defined and what it returns. */
export interface Signature {
  readonly domain: Node['domain']
  /** Outputs that are left out of the model when nothing uses them. */
  readonly optionalOutputs?: readonly number[]
  /** Types of all outputs; null where they depend on data, so that the caller has to give them. Throws GraphError. */
  readonly infer: (call: Call) => readonly ValueType[] | null
}

export const FLOATS: readonly DType[] = ['float32', 'float64', 'float16', 'bfloat16']
export const INTEGERS: readonly DType[] = ['int32', 'int64', 'int8', 'uint8']

/** A signature of ONNX's own domain. */
export function onnxSignature(infer: Signature['infer']): Signature {
  return { domain: '', infer }
}

/** A signature of `com.microsoft`. */
export function microsoftSignature(infer: Signature['infer']): Signature {
  return { domain: 'com.microsoft', infer }
}

/** An error that names the operator and the types of all its inputs. */
export function callError(call: Call, expected: string): GraphError {
  const inputs = call.inputs.map((value) => (value === null ? 'none' : `${value.name}: ${describe(value)}`)).join(', ')
  return new GraphError('bad_operand', `${call.op} expects ${expected.replace(/,$/, '')}, got (${inputs})`)
}

/** The input at `index`; a missing one is an error. */
export function required(call: Call, index: number): Value {
  const value = call.inputs[index]
  if (value === null || value === undefined) throw callError(call, `an input ${index}`)
  return value
}

/** The input at `index` checked for its dtype. */
export function typed(call: Call, index: number, dtypes: readonly DType[]): Value {
  const value = required(call, index)
  if (!dtypes.includes(value.dtype)) throw callError(call, `input ${index} of ${dtypes.join(' or ')}`)
  return value
}

/** An axis counted from the front; -1 is the last. */
export function normalizeAxis(call: Call, axis: number, rank: number): number {
  const normalized = axis < 0 ? axis + rank : axis
  if (!Number.isInteger(axis) || normalized < 0 || normalized >= rank) {
    throw callError(call, `an axis of a tensor with ${rank} dimensions, not ${axis},`)
  }
  return normalized
}

/** Shape after broadcasting; sizes must be equal or literally 1. */
export function broadcast(call: Call, a: Shape, b: Shape): Shape {
  const rank = Math.max(a.length, b.length)
  return Array.from({ length: rank }, (_, index) => {
    const left = a[index - rank + a.length] ?? 1
    const right = b[index - rank + b.length] ?? 1
    if (left === right || right === 1) return left
    if (left === 1) return right
    throw callError(call, `shapes that broadcast, not ${formatShape(a)} with ${formatShape(b)},`)
  })
}

/** The integers of a constant int64 or int32 input, or null if it is no constant. */
export function constantInts(call: Call, index: number): readonly number[] | null {
  const value = call.inputs[index]
  const tensor = value === null || value === undefined ? null : call.constantOf(value)
  if (tensor === null || (tensor.dtype !== 'int64' && tensor.dtype !== 'int32')) return null
  return Array.from(tensor.data, Number)
}

/** `shape` with the size of one axis replaced. */
export function withDim(shape: Shape, axis: number, dim: Dim): Shape {
  return shape.map((size, index) => (index === axis ? dim : size))
}

/** `float32 [B, S]`. */
export function describe(type: ValueType): string {
  return `${type.dtype} ${formatShape(type.shape)}`
}
