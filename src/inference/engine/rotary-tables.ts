/**
 * Cos and sin tables of a prepared model, from its stored frequencies.
 */
import { open } from 'node:fs/promises'
import type { PreparedModel } from '#model/architectures/prepare.js'

/**
 * Computes the tables for positions 0..length-1, each [length, D/2]; float64 inside, rounded once.
 */
export async function rotaryTablesOf(
  prepared: PreparedModel,
  length: number,
): Promise<{ readonly cos: Float32Array; readonly sin: Float32Array }> {
  const frequencies = await readFrequencies(prepared)
  const half = frequencies.length
  const cos = new Float32Array(length * half)
  const sin = new Float32Array(length * half)
  for (let position = 0; position < length; position++) {
    for (let i = 0; i < half; i++) {
      const angle = position * (frequencies[i] as number)
      cos[position * half + i] = Math.cos(angle)
      sin[position * half + i] = Math.sin(angle)
    }
  }
  return { cos, sin }
}

async function readFrequencies(prepared: PreparedModel): Promise<Float64Array> {
  const tensor = prepared.tensors('f32').get('rotary_frequencies')
  if (tensor === undefined) throw new Error('prepared model has no rotary frequencies')
  const frequencies = new Float64Array(tensor.sizeBytes / Float64Array.BYTES_PER_ELEMENT)
  const file = await open(tensor.file, 'r')
  try {
    await file.read(new Uint8Array(frequencies.buffer), 0, tensor.sizeBytes, tensor.offsetBytes)
  } finally {
    await file.close()
  }
  return frequencies
}
