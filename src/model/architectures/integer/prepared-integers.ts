/**
 * Integer weights for training: each frozen layer quantized once, stored in both directions.
 */
import { quantizeOutputs } from '#model/weights/quantize-outputs.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import type { DecoderConfig } from '../decoder-config.js'
import { type PreparedTensor, readTensor, type TensorFileWriter } from '../tensor-file.js'

/** The joined layers of a block. */
const JOINED = ['qkv', 'o', 'gate_up', 'down'] as const

/** Writes the integers of every layer, gate and up apart, one layer in memory at a time. */
export async function preparedTrainingIntegers(
  tensors: ReadonlyMap<string, PreparedTensor>,
  options: { readonly config: DecoderConfig; readonly writer: TensorFileWriter },
): Promise<void> {
  const { config, writer } = options
  for (let layer = 0; layer < config.layerCount; layer++) {
    for (const joined of JOINED) {
      const name = `layers.${layer}.${joined}`
      const tensor = tensors.get(`${name}.weight`)
      if (tensor === undefined) throw new Error(`prepared model has no tensor "${name}.weight"`)
      const [rows = 0, columns = 0] = tensor.shape
      const parts = joined === 'gate_up' ? [`${name}.0`, `${name}.1`] : [name]
      const partRows = rows / parts.length
      const weight = await readTensor(tensor)
      for (const [index, part] of parts.entries()) {
        const slice = weight.subarray(index * partRows * columns, (index + 1) * partRows * columns)
        const { quantized, scales } = quantizeOutputs(slice, partRows, new Float32Array(columns).fill(1))
        await writer.write(`${part}.integer`, { dtype: 'int8', shape: [columns, partRows], data: quantized })
        const data = transpose(quantized, columns, partRows)
        await writer.write(`${part}.integer_transposed`, { dtype: 'int8', shape: [partRows, columns], data })
        await writer.write(`${part}.output_scales`, float32Tensor(scales, [partRows]))
      }
    }
  }
}

/** [rows, columns] as [columns, rows]. */
function transpose(matrix: Int8Array, rows: number, columns: number): Int8Array {
  const out = new Int8Array(matrix.length)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) out[column * rows + row] = matrix[row * columns + column] as number
  }
  return out
}
