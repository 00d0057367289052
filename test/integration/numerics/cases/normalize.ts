/**
 * Cases of reductions, softmax, RMS norms and rotary embedding.
 */
import { argMax } from '#numerics/graph/ops/indexing.js'
import { logSoftmax, rmsNorm, rotaryEmbedding, skipRmsNorm, softmax } from '#numerics/graph/ops/normalize.js'
import { reduceMax, reduceMean, reduceSum } from '#numerics/graph/ops/reduce.js'
import { integers, normals, opCase } from '../../../support/reference/op-case.js'
import { generate } from '../../../support/reference/reference-tensor.js'

const x = normals([2, 3, 4])
const weight = normals([4], { seed: 'w', scale: 0.3, offset: 1 })

/** Registers the cases. */
export function normalizeCases(): void {
  for (const keepDims of [true, false]) {
    const about = `two axes, keepDims ${keepDims}`
    opCase('ReduceSum', { about, inputs: { x }, build: (g, v) => reduceSum(g, v['x']!, [0, -1], { keepDims }) })
    opCase('ReduceMean', { about, inputs: { x }, build: (g, v) => reduceMean(g, v['x']!, [0, -1], { keepDims }) })
    opCase('ReduceMax', { about, inputs: { x }, build: (g, v) => reduceMax(g, v['x']!, [0, -1], { keepDims }) })
  }
  opCase('ReduceMean', {
    about: 'over symbolic axes',
    inputs: { x },
    symbols: { x: ['B', 'T', 4] },
    build: (g, v) => reduceMean(g, v['x']!, [0, 1], { keepDims: false }),
  })
  opCase('ReduceSum', {
    about: 'one axis of a symbolic tensor',
    inputs: { x },
    symbols: { x: ['B', 'T', 4] },
    build: (g, v) => reduceSum(g, v['x']!, [1], { keepDims: false }),
  })
  opCase('ArgMax', { inputs: { x }, build: (g, v) => argMax(g, v['x']!, -1, { keepDims: false }) })
  for (const axis of [-1, 1]) {
    opCase('Softmax', { about: `axis ${axis}`, inputs: { x }, build: (g, v) => softmax(g, v['x']!, axis) })
    opCase('LogSoftmax', { about: `axis ${axis}`, inputs: { x }, build: (g, v) => logSoftmax(g, v['x']!, axis) })
  }
  opCase('SimplifiedLayerNormalization', {
    inputs: { x, weight },
    symbols: { x: ['B', 'T', 4] },
    build: (g, v) => rmsNorm(g, v['x']!, v['weight']!, 1e-5),
  })
  opCase('SimplifiedLayerNormalization', {
    about: 'heads, four dimensions',
    inputs: { x: normals([2, 2, 3, 4]), weight },
    build: (g, v) => rmsNorm(g, v['x']!, v['weight']!, 1e-6),
  })
  opCase('SkipSimplifiedLayerNormalization', {
    about: 'both outputs used',
    inputs: { x, skip: normals([2, 3, 4], { seed: 'skip' }), weight },
    build: (g, v) => {
      const { normed, sum } = skipRmsNorm(g, v['x']!, v['skip']!, { weight: v['weight']! })
      return [normed, sum]
    },
  })
  opCase('SkipSimplifiedLayerNormalization', {
    about: 'with a bias, only the norm used',
    inputs: { x, skip: normals([2, 3, 4], { seed: 'skip' }), weight, bias: normals([4], { seed: 'bias' }) },
    build: (g, v) => skipRmsNorm(g, v['x']!, v['skip']!, { weight: v['weight']!, bias: v['bias']! }).normed,
  })
  rotaryCases()
}

function rotaryCases(): void {
  const cos = generate('float32', [6, 2], (_, flat) => Math.fround(Math.cos(flat * 0.3)))
  const sin = generate('float32', [6, 2], (_, flat) => Math.fround(Math.sin(flat * 0.3)))
  const positions = integers([2, 3], [0, 1, 5, 3, 4, 2])
  opCase('RotaryEmbedding', {
    about: 'heads [B, H, T, D]',
    inputs: { x: normals([2, 2, 3, 4]), positions, cos, sin },
    symbols: { x: ['B', 2, 'T', 4], positions: ['B', 'T'] },
    build: (g, v) => rotaryEmbedding(g, v['x']!, v['positions']!, v['cos']!, v['sin']!),
    gradients: ['x'],
  })
  opCase('RotaryEmbedding', {
    about: 'joined heads [B, T, H*D]',
    inputs: { x: normals([2, 3, 8]), positions, cos, sin },
    build: (g, v) => rotaryEmbedding(g, v['x']!, v['positions']!, v['cos']!, v['sin']!, { headCount: 2 }),
    gradients: ['x'],
  })
}
