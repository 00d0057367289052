/**
 * AdamW and gradient clipping against torch.optim.AdamW and torch.nn.utils.clip_grad_norm_.
 */
import { describe, expect, it } from 'vitest'
import { readOptions } from '#contract/jobs/kinds.js'
import { resolveOptions } from '#contract/jobs/resolve.js'
import { adamWStep, createAdamWState } from '#numerics/optim/adamw.js'
import { clipGradNorm } from '#numerics/optim/clip-grad-norm.js'
import { toHyperparameters } from '#training/trainer/hyperparameters.js'
import { optimizerSettings } from '#training/trainer/optimizer-settings.js'
import { formulaTensor, type PackedArray, readGolden, unpack } from '../../../support/model/decoder-goldens.js'

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

interface OptionsGolden {
  readonly shapes: Readonly<Record<string, readonly number[]>>
  readonly cases: readonly {
    readonly options: Readonly<Record<string, number>>
    readonly parameters: Readonly<Record<string, PackedArray>>
  }[]
}

describe('adamw', () => {
  const byOptions = readGolden<OptionsGolden>('adamw-options.json')

  it.each(byOptions.cases)('does what torch.optim.AdamW does with $options', ({ options, parameters: expected }) => {
    const resolved = readOptions('sft', resolveOptions('sft', { ...options }))
    const { outputRateRatio = 1, maxGradientNorm, ...settings } = optimizerSettings(toHyperparameters(resolved))
    const sizes = Object.entries(byOptions.shapes).map(
      ([name, shape]) => [name, shape.reduce((x, y) => x * y, 1)] as const,
    )
    const parameters = new Map(sizes.map(([name, size]) => [name, formulaTensor(`adamw/${name}`, size, 1)]))
    const state = createAdamWState()
    for (let step = 0; step < 6; step++) {
      const gradients = new Map(
        sizes.map(([name, size]) => [name, formulaTensor(`adamw/${name}/gradient/${step}`, size, step % 2 ? 0.2 : 2)]),
      )
      clipGradNorm(gradients.values(), maxGradientNorm)
      const rateRatioOf = (name: string) => (name.includes('lora_B') ? outputRateRatio : 1)
      adamWStep(state, parameters, gradients, { ...settings, learningRate: 0.01 / (step + 1), rateRatioOf })
    }
    for (const [name] of sizes) expectClose(parameters.get(name), expected[name])
  })

  it('ends elsewhere with every one of those options', () => {
    const ends = byOptions.cases.map(({ parameters }) => parameters['m.lora_B.weight']!.float32)
    expect(new Set(ends).size).toBe(ends.length)
  })

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

  it('decays the named parameters only, and moves the others as a group without decay', () => {
    const shared = { learningRate: 0.05, beta1: 0.8, beta2: 0.95, epsilon: 1e-6 }
    const start = formulaTensor('adamw/groups', 9, 1)
    const gradientOf = (step: number) => formulaTensor(`adamw/groups/gradient/${step}`, 9, 1)
    const weights = new Map([
      ['matrix', start.slice()],
      ['norm', start.slice()],
    ])
    const state = createAdamWState()
    for (let step = 1; step <= 4; step++) {
      const gradients = new Map([...weights.keys()].map((name) => [name, gradientOf(step)]))
      adamWStep(state, weights, gradients, { ...shared, weightDecay: 0.3, isDecayed: (name) => name === 'matrix' })
    }
    // Closed form: the moments are weighted sums of all gradients, decay is a factor before every update.
    for (const [name, decay] of [
      ['matrix', 0.3],
      ['norm', 0],
    ] as const) {
      start.forEach((value, i) => {
        let expected = value
        for (let step = 1; step <= 4; step++) {
          const moment = (beta: number, power: number): number => {
            let sum = 0
            for (let past = 1; past <= step; past++) sum += beta ** (step - past) * gradientOf(past)[i]! ** power
            return ((1 - beta) * sum) / (1 - beta ** step)
          }
          expected = expected * (1 - 0.05 * decay) - (0.05 * moment(0.8, 1)) / (Math.sqrt(moment(0.95, 2)) + 1e-6)
        }
        expect(Math.abs(weights.get(name)![i]! - expected), `${name} ${i}`).toBeLessThan(1e-6)
      })
    }
    expect(weights.get('norm')).not.toEqual(weights.get('matrix'))
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
