/**
 * Element types of tensors: names, sizes and the typed array that holds them on the host.
 */

export type DType = 'float32' | 'float64' | 'float16' | 'bfloat16' | 'int8' | 'uint8' | 'int32' | 'int64' | 'bool'

/** The typed array that carries a dtype: 16-bit floats as their raw bits, bool as bytes. */
export type TypedArrayOf = {
  float32: Float32Array
  float64: Float64Array
  float16: Uint16Array
  bfloat16: Uint16Array
  int8: Int8Array
  uint8: Uint8Array
  int32: Int32Array
  int64: BigInt64Array
  bool: Uint8Array
}

export type HostArray = TypedArrayOf[DType]

/** Bytes of one element. */
export const DTYPE_SIZE_BYTES: Readonly<Record<DType, number>> = {
  float32: 4,
  float64: 8,
  float16: 2,
  bfloat16: 2,
  int8: 1,
  uint8: 1,
  int32: 4,
  int64: 8,
  bool: 1,
}
