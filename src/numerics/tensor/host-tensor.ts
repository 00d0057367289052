/**
 * A dense row-major tensor in host memory. A plain value: no device, no lifetime.
 */
import { TensorError } from '#base/errors/errors.js'
import type { DType, TypedArrayOf } from './dtype.js'

export type HostTensor<D extends DType = DType> = {
  readonly [K in D]: { readonly dtype: K; readonly shape: readonly number[]; readonly data: TypedArrayOf[K] }
}[D]

/** Number of elements of a shape; 1 for a scalar (`[]`). */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1)
}

/**
 * Wraps `data` as a float32 tensor without copying.
 *
 * @throws {TensorError} `size_mismatch` if the shape does not hold exactly `data.length` elements
 */
export function float32Tensor(data: Float32Array, shape: readonly number[]): HostTensor<'float32'> {
  assertSize('float32', data.length, shape)
  return { dtype: 'float32', shape, data }
}

/** Wraps `data` as an int32 tensor without copying; see `float32Tensor`. */
export function int32Tensor(data: Int32Array, shape: readonly number[]): HostTensor<'int32'> {
  assertSize('int32', data.length, shape)
  return { dtype: 'int32', shape, data }
}

/** An int64 tensor from plain integers (each must be a safe integer). */
export function int64Tensor(
  values: readonly number[],
  shape: readonly number[] = [values.length],
): HostTensor<'int64'> {
  assertSize('int64', values.length, shape)
  return { dtype: 'int64', shape, data: BigInt64Array.from(values, (value) => BigInt(value)) }
}

function assertSize(dtype: DType, length: number, shape: readonly number[]): void {
  if (elementCount(shape) !== length) {
    throw new TensorError(
      'size_mismatch',
      `${dtype} tensor of shape [${shape.join(', ')}] needs ${elementCount(shape)} elements, got ${length}`,
    )
  }
}
