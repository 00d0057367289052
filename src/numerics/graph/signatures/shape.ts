/**
 * Signatures of operators that move, cut, join or relabel elements.
 *
 * Source: ONNX operator specification, opset 21.
 */
import { readInt, readInts } from '../attributes.js'
import { addDims, canonicalDim, divideDims, elementCountDim, formatShape, multiplyDims, subtractDims } from '../dims.js'
import type { Dim, Shape } from '../graph.js'
import {
  type Call,
  callError,
  constantInts,
  normalizeAxis,
  onnxSignature,
  required,
  type Signature,
  type ValueType,
  withDim,
} from './signature.js'

/** Slice bounds at or beyond this mean "to the end", as in ONNX's own exporters. */
export const SLICE_END = 2 ** 31 - 1

function inferReshape(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const target = constantInts(call, 1)
  if (target === null) return null
  const fixed = target.map((size, axis) => (size === 0 ? (shape[axis] ?? 0) : size === -1 ? 1 : size))
  const free = target.indexOf(-1)
  if (free < 0) {
    if (elementCountDim(fixed) !== elementCountDim(shape)) throw callError(call, `elements for ${formatShape(fixed)}`)
    return [{ dtype, shape: fixed }]
  }
  const rest = divideDims(elementCountDim(shape), elementCountDim(fixed))
  if (rest === null) throw callError(call, `a size that ${formatShape(withDim(fixed, free, '?'))} divides`)
  return [{ dtype, shape: withDim(fixed, free, rest) }]
}

function inferTranspose(call: Call): readonly ValueType[] {
  const { dtype, shape } = required(call, 0)
  const order = readInts(call.attributes, 'perm') ?? shape.map((_, axis) => shape.length - 1 - axis)
  if ([...order].sort((a, b) => a - b).some((axis, index) => axis !== index) || order.length !== shape.length) {
    throw callError(call, `an order of ${shape.length} axes, not [${order.join(', ')}],`)
  }
  return [{ dtype, shape: order.map((axis) => shape[axis] as Dim) }]
}

function inferConcat(call: Call): readonly ValueType[] {
  const first = required(call, 0)
  const axis = normalizeAxis(call, readInt(call.attributes, 'axis', 0), first.shape.length)
  let total: Dim = 0
  for (let index = 0; index < call.inputs.length; index++) {
    const { dtype, shape } = required(call, index)
    const isAlike = shape.every((dim, other) => other === axis || dim === first.shape[other])
    if (dtype !== first.dtype || shape.length !== first.shape.length || !isAlike) {
      throw callError(call, `inputs of one dtype that differ only in axis ${axis}`)
    }
    total = addDims(total, shape[axis] as Dim)
  }
  return [{ dtype: first.dtype, shape: withDim(first.shape, axis, total) }]
}

function inferSplit(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const axis = normalizeAxis(call, readInt(call.attributes, 'axis', 0), shape.length)
  const sizes = constantInts(call, 1)
  if (sizes === null) return null
  const total = sizes.reduce((sum, size) => sum + size, 0)
  if (total !== shape[axis]) throw callError(call, `sizes that add up to ${shape[axis]}, not ${total},`)
  return sizes.map((size) => ({ dtype, shape: withDim(shape, axis, size) }))
}

function inferSlice(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const starts = constantInts(call, 1)
  const ends = constantInts(call, 2)
  const axes = constantInts(call, 3)
  const steps = call.inputs[4] ? constantInts(call, 4) : starts?.map(() => 1)
  if (!starts || !ends || !axes || !steps) return null
  const result = [...shape]
  axes.forEach((axisGiven, index) => {
    const axis = normalizeAxis(call, axisGiven, shape.length)
    const bounds = { start: starts[index] ?? 0, end: ends[index] ?? 0, step: steps[index] ?? 1 }
    result[axis] = slicedDim(call, shape[axis] as Dim, bounds)
  })
  return [{ dtype, shape: result }]
}

/** Size after slicing. A positive bound inside a symbolic size is trusted: the caller knows that the size reaches it. */
function slicedDim(call: Call, dim: Dim, { start, end, step }: { start: number; end: number; step: number }): Dim {
  if (step <= 0) throw callError(call, 'a positive step')
  const from = sliceBound(dim, start)
  const to = sliceBound(dim, end)
  const length = subtractDims(to, from)
  if (typeof length === 'number') return Math.ceil(Math.max(0, length) / step)
  if (step !== 1) throw callError(call, 'a known size where step is not 1')
  return length
}

/** Where a slice bound lands: counted from the front, clamped where the size is known. */
export function sliceBound(dim: Dim, bound: number): Dim {
  if (bound >= SLICE_END) return dim
  const place = bound < 0 ? addDims(dim, bound) : bound
  return typeof dim === 'number' && typeof place === 'number' ? Math.min(Math.max(place, 0), dim) : place
}

function inferUnsqueeze(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const axes = constantInts(call, 1)
  if (axes === null) return null
  const rank = shape.length + axes.length
  const added = axes.map((axis) => normalizeAxis(call, axis, rank))
  const rest = [...shape]
  return [
    { dtype, shape: Array.from({ length: rank }, (_, axis) => (added.includes(axis) ? 1 : (rest.shift() as Dim))) },
  ]
}

function inferSqueeze(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const axes = constantInts(call, 1)
  if (axes === null) return null
  const removed = axes.map((axis) => normalizeAxis(call, axis, shape.length))
  if (removed.some((axis) => shape[axis] !== 1)) throw callError(call, 'size 1 in the axes to remove')
  return [{ dtype, shape: shape.filter((_, axis) => !removed.includes(axis)) }]
}

function inferPad(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const pads = constantInts(call, 1)
  if (pads === null) return null
  const rank = shape.length
  return [{ dtype, shape: shape.map((dim, axis) => addDims(dim, (pads[axis] ?? 0) + (pads[axis + rank] ?? 0))) }]
}

/** Target shape of Expand and ConstantOfShape when it is a constant. */
function constantShape(call: Call, index: number): Shape | null {
  return constantInts(call, index)?.map((size) => canonicalDim(size)) ?? null
}

function inferExpand(call: Call): readonly ValueType[] | null {
  const { dtype, shape } = required(call, 0)
  const target = constantShape(call, 1)
  if (target === null) return null
  const rank = Math.max(shape.length, target.length)
  const at = (dims: Shape, axis: number): Dim => dims[axis - rank + dims.length] ?? 1
  const result = Array.from({ length: rank }, (_, axis) => {
    const [from, to] = [at(shape, axis), at(target, axis)]
    if (from !== 1 && to !== 1 && from !== to)
      throw callError(call, `a tensor that broadcasts to ${formatShape(target)}`)
    return from === 1 ? to : from
  })
  return [{ dtype, shape: result }]
}

export const SHAPE_SIGNATURES: Readonly<Record<string, Signature>> = {
  Reshape: onnxSignature(inferReshape),
  Transpose: onnxSignature(inferTranspose),
  Concat: onnxSignature(inferConcat),
  Split: onnxSignature(inferSplit),
  Slice: onnxSignature(inferSlice),
  Pad: onnxSignature(inferPad),
  Expand: onnxSignature(inferExpand),
  Unsqueeze: onnxSignature(inferUnsqueeze),
  Squeeze: onnxSignature(inferSqueeze),
  ConstantOfShape: onnxSignature((call) => {
    const shape = constantShape(call, 0)
    const value = call.attributes['value']
    const dtype = value?.kind === 'tensor' ? value.value.dtype : 'float32'
    return shape === null ? null : [{ dtype, shape }]
  }),
  Shape: onnxSignature((call) => {
    const rank = required(call, 0).shape.length
    const start = readInt(call.attributes, 'start', 0)
    const end = Math.min(readInt(call.attributes, 'end', rank), rank)
    return [{ dtype: 'int64', shape: [end - start] }]
  }),
  Size: onnxSignature((call) => {
    required(call, 0)
    return [{ dtype: 'int64', shape: [] }]
  }),
  Tile: onnxSignature((call) => {
    const { dtype, shape } = required(call, 0)
    const repeats = constantInts(call, 1)
    return repeats === null ? null : [{ dtype, shape: shape.map((dim, axis) => multiplyDims(dim, repeats[axis] ?? 1)) }]
  }),
  Range: onnxSignature(() => null),
}
