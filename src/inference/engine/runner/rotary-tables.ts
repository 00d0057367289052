/**
 * Cos and sin tables of a prepared model, from its stored frequencies.
 */
import type { PreparedModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies, readSlidingFrequencies } from '#model/architectures/rotary-frequencies.js'
import { rotaryTables } from '#numerics/nn/rotary-embedding.js'

/**
 * Computes the tables for positions 0..length-1, each [length, D/2]; float64 inside, rounded once.
 */
export async function rotaryTablesOf(
  prepared: PreparedModel,
  length: number,
): Promise<{ readonly cos: Float32Array; readonly sin: Float32Array }> {
  return rotaryTables(await readRotaryFrequencies(prepared.tensors('f32')), length)
}

/** Those of sliding layers; null where they are the same. */
export async function slidingTablesOf(
  prepared: PreparedModel,
  length: number,
): Promise<{ readonly cos: Float32Array; readonly sin: Float32Array } | null> {
  const frequencies = await readSlidingFrequencies(prepared.tensors('f32'))
  return frequencies === null ? null : rotaryTables(frequencies, length)
}
