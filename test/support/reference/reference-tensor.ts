/**
 * Tensors of the float64 reference: every element is a JavaScript number, whatever the dtype. Slow, plain, obviously right.
 */
import type { DType } from '#numerics/tensor/dtype.js'
import { elementCount, type HostTensor } from '#numerics/tensor/host-tensor.js'

export interface ReferenceTensor {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly data: Float64Array
}

/** A reference tensor from numbers. */
export function reference(dtype: DType, shape: readonly number[], data: ArrayLike<number>): ReferenceTensor {
  if (elementCount(shape) !== data.length) throw new Error(`[${shape}] does not hold ${data.length} elements`)
  return { dtype, shape, data: Float64Array.from(data) }
}

/** A reference tensor of a host tensor's numbers (float32, float64, integers, bool). */
export function toReference({ dtype, shape, data }: HostTensor): ReferenceTensor {
  return { dtype, shape, data: Float64Array.from(data as ArrayLike<number | bigint>, Number) }
}

/** The host tensor of a reference tensor, rounded to its dtype. */
export function toHost({ dtype, shape, data }: ReferenceTensor): HostTensor {
  switch (dtype) {
    case 'float32':
      return { dtype, shape, data: Float32Array.from(data) }
    case 'float64':
      return { dtype, shape, data: Float64Array.from(data) }
    case 'int64':
      return { dtype, shape, data: BigInt64Array.from(data, BigInt) }
    case 'int32':
      return { dtype, shape, data: Int32Array.from(data) }
    case 'uint8':
      return { dtype, shape, data: Uint8Array.from(data) }
    case 'int8':
      return { dtype, shape, data: Int8Array.from(data) }
    case 'bool':
      return { dtype, shape, data: Uint8Array.from(data) }
    default:
      throw new Error(`the reference has no ${dtype}`)
  }
}

/** Row-major strides. */
export function stridesOf(shape: readonly number[]): number[] {
  const strides = shape.map(() => 1)
  for (let axis = shape.length - 2; axis >= 0; axis--) strides[axis] = strides[axis + 1]! * shape[axis + 1]!
  return strides
}

/** Calls `visit` with every index tuple of a shape in row-major order, and its flat place. */
export function forEachIndex(shape: readonly number[], visit: (index: readonly number[], flat: number) => void): void {
  const index = shape.map(() => 0)
  const count = elementCount(shape)
  for (let flat = 0; flat < count; flat++) {
    visit(index, flat)
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      if (++index[axis]! < shape[axis]!) break
      index[axis] = 0
    }
  }
}

/** The element at an index tuple; axes of size 1 and missing leading axes broadcast. */
export function at(tensor: ReferenceTensor, index: readonly number[]): number {
  const { shape, data } = tensor
  const offset = index.length - shape.length
  let flat = 0
  for (let axis = 0; axis < shape.length; axis++) {
    flat = flat * shape[axis]! + (shape[axis] === 1 ? 0 : index[axis + offset]!)
  }
  return data[flat]!
}

/** The shape two shapes broadcast to. */
export function broadcastShape(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length)
  return Array.from({ length: rank }, (_, axis) => {
    const left = a[axis - rank + a.length] ?? 1
    const right = b[axis - rank + b.length] ?? 1
    return left === 1 ? right : left
  })
}

/** A tensor built from a function of the index tuple. */
export function generate(
  dtype: DType,
  shape: readonly number[],
  element: (index: readonly number[], flat: number) => number,
): ReferenceTensor {
  const data = new Float64Array(elementCount(shape))
  forEachIndex(shape, (index, flat) => {
    data[flat] = element(index, flat)
  })
  return { dtype, shape: [...shape], data }
}

/** Replaces one entry of an index tuple. */
export function withAxis(index: readonly number[], axis: number, value: number): number[] {
  const changed = [...index]
  changed[axis] = value
  return changed
}
