/**
 * AdamW and gradient clipping against torch.optim.AdamW and torch.nn.utils.clip_grad_norm_.
 */
import { describe, expect, it } from 'vitest'
import { adamWStep, createAdamWState } from '#nn/adamw.js'
import { clipGradNorm } from '#nn/clip-grad-norm.js'
import { formulaTensor, type PackedArray, readGolden, unpack } from '../../support/decoder-goldens.js'

interface AdamWGolden {
  readonly weightDecay: number
  readonly shapes: Readonly<Record<string, readonly number[]>>
  readonly steps: readonly {
    readonly learningRate: number
    readonly clip: number
    readonly norm: number
    readonly parameters: Readonly<Record<string, PackedArray>>
    readonly m: Readonly<Record<string, PackedArray>>
    readonly v: Readonly<Record<string, PackedArray>>
  }[]
}

describe('adamw', () => {
  it('follows torch.optim.AdamW with clipping through six updates', () => {
    const golden = readGolden<AdamWGolden>('adamw.json')
    const sizes = Object.entries(golden.shapes).map(
      ([name, shape]) => [name, shape.reduce((x, y) => x * y, 1)] as const,
    )
    const parameters = new Map(sizes.map(([name, size]) => [name, formulaTensor(`adamw/${name}`, size, 1)]))
    const state = createAdamWState()
    for (const [index, step] of golden.steps.entries()) {
      const gradients = new Map(
        sizes.map(([name, size]) => [
          name,
          formulaTensor(`adamw/${name}/gradient/${index}`, size, index % 2 ? 0.2 : 2),
        ]),
      )
      expect(clipGradNorm(gradients.values(), step.clip)).toBeCloseTo(step.norm, 5)
      adamWStep(state, parameters, gradients, { learningRate: step.learningRate, weightDecay: golden.weightDecay })
      for (const [name] of sizes) {
        expectClose(parameters.get(name), step.parameters[name])
        expectClose(state.moments.get(name)?.first, step.m[name])
        expectClose(state.moments.get(name)?.second, step.v[name])
      }
    }
    expect(state.stepCount).toBe(6)
  })

  it('rejects a gradient of another length', () => {
    const parameters = new Map([['a', new Float32Array(3)]])
    const gradients = new Map([['a', new Float32Array(2)]])
    expect(() =>
      adamWStep(createAdamWState(), parameters, gradients, { learningRate: 1, weightDecay: 0 }),
    ).toThrowError(/parameter "a" has 3 elements, its gradient 2/)
  })
})

describe('clipGradNorm', () => {
  it('leaves small gradients bit-identical and reports a norm that is not finite', () => {
    const small = Float32Array.of(0.3, -0.4)
    expect(clipGradNorm([small], 1)).toBeCloseTo(0.5, 6)
    expect([...small]).toEqual([...Float32Array.of(0.3, -0.4)])
    expect(clipGradNorm([Float32Array.of(1, Number.NaN)], 1)).toBeNaN()
  })
})

function expectClose(actual: Float32Array | undefined, packed: PackedArray | undefined): void {
  if (actual === undefined || packed === undefined) throw new Error('missing array')
  const expected = unpack(packed)
  expect(actual.length).toBe(expected.length)
  for (let i = 0; i < expected.length; i++) {
    expect(Math.abs((actual[i] as number) - (expected[i] as number))).toBeLessThan(1e-6 + 1e-6 * Math.abs(expected[i]!))
  }
}
