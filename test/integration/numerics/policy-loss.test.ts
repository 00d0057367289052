/**
 * The policy loss as it runs in ONNX Runtime: vectors computed from the formulas, PyTorch goldens for every
 * modifier, and random rows against the float64 reference. Values and gradients to 2e-6.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { type PolicyLossOptions, policyLoss } from '#numerics/nn/policy-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { readGolden } from '../../support/model/decoder-goldens.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import { policyLossReference } from '../../support/reference/policy-loss-reference.js'

interface Tokens {
  readonly logp: readonly number[]
  readonly old: readonly number[]
  readonly advantage: readonly number[]
  readonly weight: readonly number[]
  readonly segments: readonly number[]
  readonly reference?: readonly number[]
  readonly sampler?: readonly number[]
  readonly entropy?: readonly number[]
}

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-policy-'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

/** Runs loss and gradient; `padding` extra tokens must change nothing. */
async function run(tokens: Tokens, options: PolicyLossOptions, padding = 3) {
  const n = tokens.logp.length + padding
  const segments = [...new Set(tokens.segments)]
  const g = new GraphBuilder('policy')
  const perToken = (name: string) => g.input(name, 'float32', ['N'])
  const logp = perToken('logp')
  const entropy = options.entropyCoefficient > 0 ? perToken('entropy') : null
  const { loss, ratio } = policyLoss(
    g,
    {
      logp,
      oldLogp: perToken('old'),
      advantage: perToken('advantage'),
      weight: perToken('weight'),
      mask: perToken('mask'),
      denominator: g.input('denominator', 'float32', []),
      segments: options.ratioLevel === 'token' ? null : g.input('segments', 'float32', ['N', 'G']),
      entropy,
      referenceLogp: options.kl === null && options.klBeta === 0 ? null : perToken('reference'),
      klMean: options.kl?.isMeanGiven === true ? g.input('kl_mean', 'float32', []) : null,
      samplerLogp: options.truncation?.source === 'precalculated' ? perToken('sampler') : null,
    },
    options,
  )
  const read = [logp, ...(entropy === null ? [] : [entropy])]
  const [gradient, entropyGradient] = backward(g, [{ value: loss, gradient: g.scalar(1) }], read)
  if (entropyGradient !== undefined) g.output(entropyGradient, 'entropy_gradient')
  g.output(loss, 'loss')
  g.output(ratio, 'ratio')
  g.output(gradient!, 'gradient')
  const path = join(directory, 'policy.onnx')
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  const column = (values: readonly number[] | undefined, fill: number) =>
    float32Tensor(
      Float32Array.from({ length: n }, (_, i) => values?.[i] ?? fill),
      [n],
    )
  const membership = new Float32Array(n * segments.length)
  tokens.segments.forEach((segment, i) => {
    membership[i * segments.length + segments.indexOf(segment)] = 1
  })
  const feeds = {
    logp: column(tokens.logp, -1),
    old: column(tokens.old, Number.NaN),
    advantage: column(tokens.advantage, 0),
    weight: column(tokens.weight, 0),
    mask: column(
      tokens.logp.map(() => 1),
      0,
    ),
    denominator: float32Tensor(Float32Array.of(tokens.logp.length), []),
    segments: float32Tensor(membership, [n, segments.length]),
    reference: column(tokens.reference, 0),
    sampler: column(tokens.sampler, Number.NaN),
    entropy: column(tokens.entropy, 5),
  }
  const wanted = Object.fromEntries(Object.entries(feeds).filter(([name]) => session.inputNames.includes(name)))
  const result = await session.run(wanted)
  await session.release()
  const list = (name: string) => Array.from(result[name]!.data as Float32Array)
  expect(
    list('gradient')
      .slice(tokens.logp.length)
      .every((value) => value === 0),
  ).toBe(true)
  return {
    loss: list('loss')[0]!,
    gradient: list('gradient').slice(0, tokens.logp.length),
    entropyGradient: entropy === null ? [] : list('entropy_gradient'),
    ratio: list('ratio').slice(0, tokens.logp.length),
  }
}

describe('policy loss: vectors of one row', () => {
  const row: Tokens = {
    logp: [-0.5, -1.0, -0.2, -2.0, -1.5],
    old: [-0.7, -1.0, -0.1, -4.0, -1.2],
    advantage: [4 / 3, 4 / 3, -2 / 3, -2 / 3, -2 / 3],
    weight: [1.25, 1.25, 5 / 6, 5 / 6, 5 / 6],
    segments: [0, 0, 1, 1, 1],
  }
  it.each<[string, JsonObject, number, number[]]>([
    ['defaults (CISPO)', {}, -0.717788, [-0.407134, -0.333333, 0.100537, 0.555556, 0.082313]],
    ['ppo', { ppo: true }, 0.277099, [0, -0.333333, 0.100537, 0.821006, 0]],
    [
      'ppo, epsilon_high 0.28',
      { ppo: true, epsilon_high: 0.28 },
      0.269965,
      [-0.407134, -0.333333, 0.100537, 0.821006, 0],
    ],
    [
      'sequence',
      { importance_sampling_level: 'sequence' },
      -0.148197,
      [-0.36839, -0.36839, 0.189401, 0.189401, 0.189401],
    ],
    [
      'sequence + ppo',
      { importance_sampling_level: 'sequence', ppo: true },
      -0.168579,
      [-0.36839, -0.36839, 0.189401, 0.189401, 0.189401],
    ],
    [
      'average',
      { importance_sampling_level: 'average' },
      -0.698443,
      [-0.387762, -0.350862, 0.144969, 0.505203, 0.135857],
    ],
    [
      'geometric_average',
      { importance_sampling_level: 'geometric_average' },
      -0.459494,
      [-0.387278, -0.350424, 0.137992, 0.394334, 0.124861],
    ],
    [
      'max weight 2.0',
      { max_negative_advantage_importance_sampling_weight: 2 },
      -0.051121,
      [-0.407134, -0.333333, 0.100537, 0.222222, 0.082313],
    ],
    ['mask_prob_ratio', { mask_prob_ratio: true }, 0.393323, [-0.407134, -0.333333, 0.100537, 0, 0.082313]],
    ['tau 0.1', { kimi_k2_tau: 0.1 }, -1.048317, [-0.401027, -0.333333, 0.099029, 0.722222, 0.078609]],
  ])('%s', async (_, config, loss, gradient) => {
    const result = await run(row, resolveRlConfig(config).policyLoss)
    expectClose([result.loss], [loss])
    expectClose(result.gradient, gradient)
  })

  it('TIS 2.0 without precalculation', async () => {
    const truncation = { limit: 2, source: 'ratio' as const }
    const result = await run(row, { ...resolveRlConfig({}).policyLoss, truncation })
    expectClose([result.loss], [-1.749914])
    expectClose(result.gradient, [-0.497275, -0.333333, 0.09097, 1.111111, 0.060979])
  })
})

interface PolicyGolden extends Omit<Tokens, 'old' | 'sampler'> {
  readonly old: readonly (number | null)[]
  readonly sampler: readonly (number | null)[]
  readonly cases: Readonly<Record<string, { options: JsonObject; loss: number; gradient: number[] }>>
}

describe('policy loss: PyTorch goldens', () => {
  const golden = readGolden<PolicyGolden>('policy-loss.json')
  const withNaN = (values: readonly (number | null)[]) => values.map((value) => value ?? Number.NaN)
  it.each(Object.keys(golden.cases))('%s', async (name) => {
    const { options, loss, gradient } = golden.cases[name]!
    const tokens = { ...golden, old: withNaN(golden.old), sampler: withNaN(golden.sampler) }
    const result = await run(tokens, resolveRlConfig(options).policyLoss)
    expectClose([result.loss], [loss])
    expectClose(result.gradient, gradient)
  })
})

describe('policy loss: variants of one row', () => {
  const row: Tokens = {
    logp: [-0.5, -1.0, -0.2, -2.0, -1.5],
    old: [-0.7, -1.0, -0.1, -4.0, -1.2],
    advantage: [1, 1, -0.5, -0.5, -0.5],
    weight: [1, 1, 1, 1, 1],
    segments: [0, 0, 1, 1, 1],
  }

  it('plain importance sampling is the ratio times the advantage, clipped by nothing', async () => {
    const { policyLoss: options } = resolveRlConfig({ loss_fn: 'importance_sampling' })
    const { loss, gradient } = await run(row, options)
    const terms = row.logp.map((logp, t) => -Math.exp(logp - row.old[t]!) * row.advantage[t]!)
    expectClose([loss], [terms.reduce((sum, term) => sum + term, 0) / 5])
    expectClose(
      gradient,
      terms.map((term) => term / 5),
    )
  })

  it('DRO pulls towards the sampler in proportion to the log ratio', async () => {
    const { policyLoss: options } = resolveRlConfig({ loss_fn: 'dro', dro_beta: 0.3 })
    const { gradient } = await run(row, options)
    expectClose(
      gradient,
      row.logp.map((logp, t) => -(row.advantage[t]! - 0.3 * (logp - row.old[t]!)) / 5),
    )
  })

  it('GSPO clips whole sequences at its own bounds: those that moved too far have no gradient', async () => {
    const { policyLoss: options } = resolveRlConfig({ loss_fn: 'gspo' })
    expect(options).toMatchObject({ loss: 'ppo', ratioLevel: 'sequence', epsilon: 3e-4, epsilonHigh: 4e-4 })
    const near = { ...row, old: row.logp.map((logp, t) => logp + (t < 2 ? -1e-4 : 1e-4)) }
    const { gradient } = await run(near, options)
    // each token has an equal part of its sequence's gradient
    expectClose(
      gradient,
      [-0.2, -0.2, 0.1, 0.1, 0.1].map((value, t) => value * Math.exp(t < 2 ? 1e-4 : -1e-4)),
    )
    const far = { ...row, old: row.logp.map((logp, t) => logp + (t < 2 ? -1e-3 : 1e-3)) }
    expect((await run(far, options)).gradient.map(Math.abs)).toEqual([0, 0, 0, 0, 0])
  })
})

describe('policy loss: random rows against the float64 reference', () => {
  const levels = ['token', 'sequence', 'average', 'geometric_average']
  const losses = ['cispo', 'ppo', 'importance_sampling', 'dro']
  const cases = Array.from({ length: 48 }, (_, seed) => seed)
  it.each(cases)('row %i', async (seed) => {
    const rng = createRng(`policy row ${seed}`)
    const count = 3 + rng.integer(12)
    const segments = Array.from({ length: count }, (_, i) => Math.floor(i / 4))
    const numbers = (scale: number, shift: number) =>
      Array.from({ length: count }, () => Math.fround(rng.normal() * scale + shift))
    const logp = numbers(0.8, -2)
    const old = logp.map((value) => (rng.uniform() < 0.1 ? Number.NaN : Math.fround(value + 0.5 * rng.normal())))
    const loss = losses[seed % losses.length]!
    const isClipped = loss === 'cispo' || loss === 'ppo'
    const config = resolveRlConfig({
      loss_fn: loss,
      ...(loss === 'dro' ? { dro_beta: 0.4 } : { importance_sampling_level: levels[rng.integer(4)]! }),
      ...(isClipped
        ? {
            epsilon: 0.1 + rng.uniform() * 0.4,
            epsilon_high: 0.1 + rng.uniform(),
            mask_prob_ratio: rng.uniform() < 0.3,
          }
        : {}),
      max_negative_advantage_importance_sampling_weight: loss !== 'dro' && rng.uniform() < 0.3 ? 1.3 : null,
      entropy_coef: rng.uniform() < 0.4 ? 0.05 : 0,
      beta: rng.uniform() < 0.4 ? 0.1 : 0,
      kimi_k2_tau: rng.uniform() < 0.3 ? 0.2 : null,
      kl_penalty_coef: rng.uniform() < 0.4 ? 0.3 : 0,
      kl_penalty_source: rng.uniform() < 0.5 ? 'sample' : 'current_learner',
      truncated_importance_sampling: rng.uniform() < 0.3 ? 1.1 : null,
    }).policyLoss
    const sampler = numbers(0.8, -2)
    const tokens = {
      logp,
      old,
      segments,
      advantage: numbers(1, 0),
      weight: numbers(0.2, 1),
      reference: numbers(0.5, -2),
      sampler,
      entropy: numbers(0.3, 2),
    }
    const precalculated =
      config.truncation === null
        ? {}
        : { precalculatedLogprobs: old.map((value, i) => (Number.isNaN(value) ? logp[i]! : value)) }
    const expected = policyLossReference(
      {
        logprobs: logp,
        samplerLogprobs: config.truncation === null ? old : sampler,
        ...precalculated,
        referenceLogprobs: tokens.reference,
        entropies: tokens.entropy,
        advantages: tokens.advantage,
        weights: tokens.weight,
        segmentIds: segments,
      },
      config,
    )
    const result = await run(tokens, config)
    expectClose([result.loss], [expected.loss])
    expectClose(result.gradient, expected.gradient)
    const gained = result.entropyGradient.slice(0, config.entropyCoefficient > 0 ? count : 0)
    expectClose(gained, config.entropyCoefficient > 0 ? expected.entropyGradient : [])
    expect(result.entropyGradient.slice(count).every((value) => value === 0 || Object.is(value, -0))).toBe(true)
  })

  it('a log ratio that overflows float32 leaves loss and gradient finite', async () => {
    const tokens = { logp: [-1, -1], old: [-500, -1], advantage: [1, -1], weight: [1, 1], segments: [0, 0] }
    for (const loss_fn of losses) {
      const result = await run(tokens, resolveRlConfig({ loss_fn }).policyLoss)
      expect([result.loss, ...result.gradient].every(Number.isFinite)).toBe(true)
    }
  })
})

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual.length).toBe(expected.length)
  for (const [i, value] of expected.entries()) {
    expect(Math.abs(actual[i]! - value)).toBeLessThan(2e-6 * (1 + Math.abs(value)))
  }
}
