/**
 * The rotary frequencies of a prepared model, as preparation stored them: one float64 per pair of a head's elements.
 * Every scaling is applied already, so serving and training rotate by the same numbers.
 */
import { open } from 'node:fs/promises'
import type { PreparedTensor } from './tensor-file.js'

/** Radians per position of each pair, [D/2]. */
export async function readRotaryFrequencies(tensors: ReadonlyMap<string, PreparedTensor>): Promise<Float64Array> {
  const tensor = tensors.get('rotary_frequencies')
  if (tensor === undefined) throw new Error('the prepared model has no tensor "rotary_frequencies"')
  const file = await open(tensor.file, 'r')
  try {
    const bytes = new Uint8Array(tensor.sizeBytes)
    await file.read(bytes, 0, tensor.sizeBytes, tensor.offsetBytes)
    return new Float64Array(bytes.buffer)
  } finally {
    await file.close()
  }
}
