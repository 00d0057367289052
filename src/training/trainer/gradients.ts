/**
 * Gradients as a train graph returns them: read by name, summed over micro-batches.
 */
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { gradientName } from './train-graph.js'

/** One run's gradients by parameter name; shares memory with the outputs. */
export function gradientsOf(
  result: Readonly<Record<string, HostTensor>>,
  names: Iterable<string>,
): Map<string, Float32Array> {
  return new Map(Array.from(names, (name) => [name, float32Of(result, gradientName(name))]))
}

/**
 * Adds one run's gradients to the sums; the first run's arrays become the sums.
 *
 * @param sums by parameter name, changed in place
 */
export function addGradients(sums: Map<string, Float32Array>, gradients: ReadonlyMap<string, Float32Array>): void {
  for (const [name, gradient] of gradients) {
    const sum = sums.get(name)
    if (sum === undefined) sums.set(name, gradient)
    else for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (gradient[i] as number)
  }
}

/** A float32 output of a run; shares its memory. */
export function float32Of(result: Readonly<Record<string, HostTensor>>, name: string): Float32Array {
  const tensor = result[name]
  if (tensor?.dtype !== 'float32') throw new Error(`the graph returned no float32 output "${name}"`)
  return tensor.data
}
