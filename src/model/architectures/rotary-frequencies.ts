/**
 * The rotary frequencies of a prepared model, as preparation stored them: one float64 per pair of a head's elements.
 * Every scaling is applied already, so serving and training rotate by the same numbers.
 */
import { open } from 'node:fs/promises'
import type { PreparedTensor } from './tensor-file.js'

/** Name of the tensor of sliding layers, where they turn by frequencies of their own. */
export const SLIDING_FREQUENCIES = 'sliding_rotary_frequencies'

/** Radians per position of each pair, [D/2]. */
export async function readRotaryFrequencies(tensors: ReadonlyMap<string, PreparedTensor>): Promise<Float64Array> {
  const tensor = tensors.get('rotary_frequencies')
  if (tensor === undefined) throw new Error('the prepared model has no tensor "rotary_frequencies"')
  return readFloat64(tensor)
}

/** Those of sliding layers, [D/2]; null where they are the same. */
export async function readSlidingFrequencies(
  tensors: ReadonlyMap<string, PreparedTensor>,
): Promise<Float64Array | null> {
  const tensor = tensors.get(SLIDING_FREQUENCIES)
  return tensor === undefined ? null : readFloat64(tensor)
}

async function readFloat64(tensor: PreparedTensor): Promise<Float64Array> {
  const file = await open(tensor.file, 'r')
  try {
    const bytes = new Uint8Array(tensor.sizeBytes)
    await file.read(bytes, 0, tensor.sizeBytes, tensor.offsetBytes)
    return new Float64Array(bytes.buffer)
  } finally {
    await file.close()
  }
}
