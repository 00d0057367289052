/**
 * A two-layer network with adapters, small enough to read as a dump and rich enough to exercise the backward pass.
 */
import { backward } from '#numerics/autodiff/backward.js'
import { blocksByScope } from '#numerics/autodiff/recompute.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { add, mul, tanh } from '#numerics/graph/ops/elementwise.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { quickGelu, rmsNorm } from '#numerics/graph/ops/normalize.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** Sizes: rows are symbolic `M`, width 4, rank 2. Outputs: `loss` and one gradient per adapter matrix. */
export function buildSmallNetwork(options: { readonly isRecomputed: boolean; readonly layers?: number }): GraphBuilder {
  const g = new GraphBuilder('small')
  const x = g.input('x', 'float32', ['M', 4])
  const weight = g.constant(
    float32Tensor(
      Float32Array.from({ length: 16 }, (_, i) => Math.sin(i)),
      [4, 4],
    ),
    'weight',
  )
  const scale = g.constant(float32Tensor(Float32Array.of(1, 0.9, 1.1, 1), [4]), 'scale')
  const adapters: Value[] = []
  let hidden = g.scope('embed', () => tanh(g, x))
  for (let layer = 0; layer < (options.layers ?? 2); layer++) {
    const a = g.input(`a${layer}`, 'float32', [2, 4])
    const b = g.input(`b${layer}`, 'float32', [4, 2])
    adapters.push(a, b)
    hidden = g.scope(`layers.${layer}`, () => {
      const normed = rmsNorm(g, hidden, scale)
      const base = gemm(g, normed, weight, { transB: true })
      const inner = gemm(g, normed, a, { transB: true })
      return add(g, hidden, quickGelu(g, gemm(g, inner, b, { transB: true, alpha: 0.5, c: base })))
    })
  }
  const loss = g.scope('loss', () => reduceSum(g, mul(g, hidden, hidden), [0, 1], { keepDims: false }))
  const recompute = options.isRecomputed ? { recompute: blocksByScope((name) => name.startsWith('layers.')) } : {}
  const gradients = backward(g, [{ value: loss, gradient: g.scalar(1) }], adapters, recompute)
  g.output(loss, 'loss')
  for (const [index, gradient] of gradients.entries()) g.output(gradient, `gradient_${adapters[index]!.name}`)
  return g
}
