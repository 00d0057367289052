/**
 * Gradients as a train graph returns them: read by name, summed over micro-batches.
 */
import type { HostTensor } from '#tensor/host-tensor.js'
import { gradientName } from './train-graph.js'

/**
 * Adds one run's gradients to the sums; the first run's arrays become the sums.
 *
 * @param gradients by parameter name, changed in place
 * @param names parameters whose gradients `result` has
 */
export function addGradients(
  gradients: Map<string, Float32Array>,
  result: Readonly<Record<string, HostTensor>>,
  names: Iterable<string>,
): void {
  for (const name of names) {
    const gradient = float32Of(result, gradientName(name))
    const sum = gradients.get(name)
    if (sum === undefined) gradients.set(name, gradient)
    else for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (gradient[i] as number)
  }
}

/** A float32 output of a run, shared, not copied. */
export function float32Of(result: Readonly<Record<string, HostTensor>>, name: string): Float32Array {
  const tensor = result[name]
  if (tensor?.dtype !== 'float32') throw new Error(`the graph returned no float32 output "${name}"`)
  return tensor.data
}
