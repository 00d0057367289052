/**
 * The least memory that training on a base model takes: its weights alone, as a job computes with them.
 */
import type { CommonOptions } from '#contract/jobs/shared-options.js'

const BYTES: Readonly<Record<CommonOptions['precision'], number>> = { f32: 4, bf16: 2, int8: 1 }

/**
 * @param parameters of the base model; null where nobody knows
 * @param precision as the job resolved it
 * @returns bytes; null where nobody knows
 */
export function weightBytesOf(parameters: number | null, precision: unknown): number | null {
  return parameters === null ? null : parameters * (BYTES[precision as CommonOptions['precision']] ?? BYTES.int8)
}
