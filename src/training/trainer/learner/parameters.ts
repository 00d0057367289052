/**
 * An adapter's tensors by the names that graphs, optimizer states and resume points give them.
 */
import type { AdapterWeights } from '#model/weights/adapter.js'
import { rankOf } from '#model/weights/adapter-config.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { adapterTensorNames } from '../row-decoder.js'

/** The adapter's tensors by graph name, sharing memory with the adapter. */
export function adapterParameters(adapter: AdapterWeights): ReadonlyMap<string, Float32Array> {
  const parameters = new Map<string, Float32Array>()
  for (const [path, a] of adapter.a) {
    const b = adapter.b.get(path)
    if (b === undefined) throw new Error(`adapter has no B for "${path}"`)
    const names = adapterTensorNames(path)
    parameters.set(names.a, a).set(names.b, b)
  }
  return parameters
}

/** The adapter as graph inputs, sharing memory with it. */
export function adapterFeeds(adapter: AdapterWeights): Record<string, HostTensor> {
  const feeds: Record<string, HostTensor> = {}
  for (const [path, a] of adapter.a) {
    const rank = rankOf(adapter.config, path)
    const b = adapter.b.get(path) ?? new Float32Array(0)
    const names = adapterTensorNames(path)
    feeds[names.a] = float32Tensor(a, [rank, a.length / rank])
    feeds[names.b] = float32Tensor(b, [b.length / rank, rank])
  }
  return feeds
}

/** A copy whose values change with nothing else. */
export function copyAdapter({ config, a, b }: AdapterWeights): AdapterWeights {
  const copy = (side: AdapterWeights['a']) => new Map([...side].map(([path, values]) => [path, values.slice()]))
  return { config, a: copy(a), b: copy(b) }
}
