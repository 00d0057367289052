/**
 * The tensors of a base model with an adapter merged in, read one at a time: W + (alpha / rank) · B A.
 *
 * The product is summed in float64 and rounded once with the sum. Source: LoRA (arXiv:2106.09685), section 4.1.
 */
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { WeightSource } from '#model/weights/weight-source.js'

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
        if (adapter !== null && a !== undefined && b !== undefined) addProduct(values, adapter.config, { a, b })
        return values
      },
    }))
}

/** Adds (alpha / rank) · B A to a weight [out, in], in place. */
function addProduct(
  weight: Float32Array,
  { rank, alpha }: { readonly rank: number; readonly alpha: number },
  { a, b }: { readonly a: Float32Array; readonly b: Float32Array },
): void {
  const columns = a.length / rank
  const scale = alpha / rank
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
    for (let i = 0; i < columns; i++) weight[at + i] = (weight[at + i] as number) + (sums[i] as number)
  }
}
