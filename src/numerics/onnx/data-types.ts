/**
 * ONNX's numbers for element types, as they appear in tensors and in the attribute `to` of Cast.
 *
 * Source: onnx.proto, `TensorProto.DataType` (onnx 1.10 and later).
 */
import type { DType } from '#numerics/tensor/dtype.js'

/** Element type → ONNX data type number. */
export const ONNX_DATA_TYPES: Readonly<Record<DType, number>> = {
  float32: 1,
  uint8: 2,
  int8: 3,
  int32: 6,
  int64: 7,
  bool: 9,
  float16: 10,
  float64: 11,
  bfloat16: 16,
}

const DTYPES = new Map(Object.entries(ONNX_DATA_TYPES).map(([dtype, code]) => [code, dtype as DType]))

/** The element type of an ONNX data type number, or null if this project has no such type. */
export function dtypeFromOnnx(code: number): DType | null {
  return DTYPES.get(code) ?? null
}
