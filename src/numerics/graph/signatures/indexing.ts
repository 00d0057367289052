/**
 * Signatures of operators that look up, scatter, sort or count by index, and of Loop and If.
 *
 * Source: ONNX operator specification, opset 21.
 */
import { readInt } from '../attributes.js'
import { isSameShape } from '../dims.js'
import type { Dim } from '../graph.js'
import {
  type Call,
  callError,
  constantInts,
  normalizeAxis,
  onnxSignature,
  required,
  type Signature,
  typed,
  type ValueType,
  withDim,
} from './signature.js'

const INDICES = ['int64', 'int32'] as const

function axisOf(call: Call, fallback: number): number {
  return normalizeAxis(call, readInt(call.attributes, 'axis', fallback), required(call, 0).shape.length)
}

function inferGather(call: Call): readonly ValueType[] {
  const { dtype, shape } = required(call, 0)
  const indices = typed(call, 1, INDICES)
  const axis = axisOf(call, 0)
  return [{ dtype, shape: [...shape.slice(0, axis), ...indices.shape, ...shape.slice(axis + 1)] }]
}

function inferGatherElements(call: Call): readonly ValueType[] {
  const { dtype, shape } = required(call, 0)
  const indices = typed(call, 1, INDICES)
  axisOf(call, 0)
  if (indices.shape.length !== shape.length) throw callError(call, 'indices with as many dimensions as the data')
  return [{ dtype, shape: indices.shape }]
}

function inferScatterElements(call: Call): readonly ValueType[] {
  const { dtype, shape } = required(call, 0)
  const indices = typed(call, 1, INDICES)
  const updates = typed(call, 2, [dtype])
  axisOf(call, 0)
  if (!isSameShape(indices.shape, updates.shape)) throw callError(call, 'one update per index')
  if (indices.shape.length !== shape.length) throw callError(call, 'indices with as many dimensions as the data')
  return [{ dtype, shape }]
}

/** GatherND and ScatterND: the last axis of the indices addresses the leading axes of the data. */
function sliceShape(call: Call): readonly Dim[] {
  const { shape } = required(call, 0)
  const indices = typed(call, 1, ['int64'])
  const depth = indices.shape.at(-1)
  if (typeof depth !== 'number' || depth > shape.length) throw callError(call, 'indices with a known last size')
  return [...indices.shape.slice(0, -1), ...shape.slice(depth)]
}

function inferScatterND(call: Call): readonly ValueType[] {
  const { dtype, shape } = required(call, 0)
  const expected = sliceShape(call)
  if (!isSameShape(typed(call, 2, [dtype]).shape, expected)) throw callError(call, `updates [${expected.join(', ')}]`)
  return [{ dtype, shape }]
}

function inferTopK(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const count = constantInts(call, 1)?.[0]
  if (count === undefined) return null
  const kept = withDim(shape, axisOf(call, -1), count)
  return [
    { dtype, shape: kept },
    { dtype: 'int64', shape: kept },
  ]
}

function inferOneHot(call: Call): readonly ValueType[] | null {
  const indices = required(call, 0)
  const depth = constantInts(call, 1)?.[0]
  if (depth === undefined) return null
  const axis = normalizeAxis(call, readInt(call.attributes, 'axis', -1), indices.shape.length + 1)
  const shape = [...indices.shape]
  shape.splice(axis, 0, depth)
  return [{ dtype: required(call, 2).dtype, shape }]
}

/** If: whichever body runs, the types are those its first one returns. */
function inferIf({ attributes }: Call): readonly ValueType[] | null {
  const body = attributes['then_branch']
  return body?.kind === 'graph' ? body.value.outputs.map(({ dtype, shape }) => ({ dtype, shape })) : null
}

/** Loop: carried values keep their types; scan outputs get the iterations as a new first axis, which only data knows. */
function inferLoop(call: Call): readonly ValueType[] | null {
  const body = call.attributes['body']
  if (body?.kind !== 'graph') throw callError(call, 'a body')
  const carried = call.inputs.slice(2)
  carried.forEach((_, index) => {
    const initial = required(call, index + 2)
    const next = body.value.outputs[index + 1]
    if (next === undefined || next.dtype !== initial.dtype || !isSameShape(next.shape, initial.shape)) {
      throw callError(call, `carried value ${index} to keep its type through the body`)
    }
  })
  if (body.value.outputs.length > carried.length + 1) return null
  return carried.map((_, index) => ({ dtype: required(call, index + 2).dtype, shape: required(call, index + 2).shape }))
}

export const INDEXING_SIGNATURES: Readonly<Record<string, Signature>> = {
  Gather: onnxSignature(inferGather),
  GatherElements: onnxSignature(inferGatherElements),
  GatherND: onnxSignature((call) => [{ dtype: required(call, 0).dtype, shape: sliceShape(call) }]),
  ScatterElements: onnxSignature(inferScatterElements),
  ScatterND: onnxSignature(inferScatterND),
  OneHot: onnxSignature(inferOneHot),
  TopK: onnxSignature(inferTopK),
  CumSum: onnxSignature((call) => {
    const { dtype, shape } = required(call, 0)
    typed(call, 1, INDICES)
    return [{ dtype, shape }]
  }),
  If: onnxSignature(inferIf),
  Loop: onnxSignature(inferLoop),
}
