/**
 * Tensors as a safetensors file, one after the other: header first, for all sizes are known.
 */
import { buildHeader } from '#model/weights/safetensors-header.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import type { ExportFile } from '../export-file.js'
import { type FloatStorage, storedBytes, toStoredBytes } from '../float-bytes.js'
import type { ExportTensor } from '../merged-tensors.js'

const DTYPES = { f32: 'float32', f16: 'float16', bf16: 'bfloat16' } as const

/** A safetensors file of these tensors, all stored alike. */
export function safetensorsFile(
  name: string,
  tensors: readonly ExportTensor[],
  storage: Exclude<FloatStorage, 'q8_0'>,
): ExportFile {
  const header = buildHeader(
    tensors.map((tensor) => ({ name: tensor.name, dtype: DTYPES[storage], shape: tensor.shape })),
    { format: 'pt' },
  )
  const dataBytes = tensors.reduce((sum, { shape }) => sum + storedBytes(storage, elementCount(shape)), 0)
  return {
    name,
    sizeBytes: header.length + dataBytes,
    bytes: async function* write() {
      yield header
      for (const tensor of tensors) yield toStoredBytes(await tensor.read(), storage, tensor.name)
    },
  }
}
