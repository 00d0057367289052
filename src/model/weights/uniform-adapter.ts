/**
 * Rewrites an adapter whose modules differ in rank or scale so that all have one rank and one scale, for programs that know only
 * that: vLLM reads no `rank_pattern`. The function it computes stays the same.
 */
import { maxOf } from '#base/util/lists.js'
import type { AdapterWeights } from './adapter.js'
import { rankOf, scaleOf } from './adapter-config.js'

/** The same changes with the largest rank in every module: zeros fill A and B, and what differs in scale is in B. */
export function uniformAdapter({ config, a, b }: AdapterWeights): AdapterWeights {
  const { alpha, targets } = config
  const rank = maxOf([...a.keys()].map((path) => rankOf(config, path)))
  const [wideA, wideB] = [new Map<string, Float32Array>(), new Map<string, Float32Array>()]
  for (const [path, values] of a) {
    const own = rankOf(config, path)
    const factor = (scaleOf(config, path) * rank) / alpha
    const down = new Float32Array((values.length / own) * rank)
    down.set(values)
    const narrow = b.get(path) ?? new Float32Array(0)
    const up = new Float32Array((narrow.length / own) * rank)
    narrow.forEach((value, i) => {
      up[Math.floor(i / own) * rank + (i % own)] = value * factor
    })
    wideA.set(path, down)
    wideB.set(path, up)
  }
  return { config: { rank, alpha, targets }, a: wideA, b: wideB }
}
