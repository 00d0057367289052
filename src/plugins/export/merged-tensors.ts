/**
 * The tensors of a base model with an adapter merged in, read one at a time: W + (alpha / rank) · B A, and of DoRA
 * m · (W + (alpha / rank) · B A) / |W + (alpha / rank) · B A| by row.
 *
 * Everything is summed in float64 and rounded once. Sources: LoRA (arXiv:2106.09685), section 4.1; DoRA (arXiv:2402.09353),
 * equation 5.
 */
import type { AdapterWeights } from '#model/weights/adapter.js'
import { rankOf, scaleOf } from '#model/weights/adapter-config.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import type { LowRankChange } from './given-adapter.js'

/** A tensor to be written; its values are read when they are wanted. */
export interface ExportTensor {
  /** Hugging Face's name. */
  readonly name: string
  /** Row-major: a linear weight is [out, in]. */
  readonly shape: readonly number[]
  read(): Promise<Float32Array>
}

/**
 * All tensors the decoder uses, in the base model's order.
 *
 * @param names the decoder's tensors: what else the base carries (a head equal to the embedding, rotary tables) is left out
 * @param adapter null for the base model itself
 */
export function mergedTensors(
  source: WeightSource,
  names: ReadonlySet<string>,
  adapter: AdapterWeights | null,
): readonly ExportTensor[] {
  return source.tensorNames
    .filter((name) => names.has(name))
    .map((name) => ({
      name,
      shape: source.tensorShape(name),
      read: async () => {
        const values = await source.readFloat32(name)
        const path = name.replace(/\.weight$/, '')
        const a = adapter?.a.get(path)
        const b = adapter?.b.get(path)
        if (adapter === null || a === undefined || b === undefined) return values
        const { config } = adapter
        applyChange(values, { rank: rankOf(config, path), scale: scaleOf(config, path), a, b, magnitude: null })
        return values
      },
    }))
}

/** Changes a weight [out, in] in place. */
export function applyChange(weight: Float32Array, { rank, scale, a, b, magnitude }: LowRankChange): void {
  const columns = a.length / rank
  const sums = new Float64Array(columns)
  for (let row = 0; row * columns < weight.length; row++) {
    sums.fill(0)
    for (let r = 0; r < rank; r++) {
      const factor = scale * (b[row * rank + r] as number)
      const from = r * columns
      if (factor !== 0)
        for (let i = 0; i < columns; i++) sums[i] = (sums[i] as number) + factor * (a[from + i] as number)
    }
    const at = row * columns
    for (let i = 0; i < columns; i++) sums[i] = (sums[i] as number) + (weight[at + i] as number)
    const factor = magnitude === null ? 1 : (magnitude[row] as number) / lengthOf(sums)
    for (let i = 0; i < columns; i++) weight[at + i] = factor * (sums[i] as number)
  }
}

function lengthOf(values: Float64Array): number {
  let squares = 0
  for (const value of values) squares += value * value
  return Math.sqrt(squares)
}
