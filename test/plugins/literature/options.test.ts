/**
 * Losses and advantages as contributions: what a job with one runs with, what is refused beside it, and what a request may
 * bring itself.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { type Formula, traceFormula } from '#base/formula/formula.js'
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { addLossesOf, traceAdvantage, traceLoss } from '#contract/jobs/losses.js'
import { resolveOptions } from '#contract/jobs/resolve.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { countTraining, estimatorOf, formulaAdvantages, whichTrain } from '#formats/rows/which-train.js'
import { ADVANTAGES } from '#plugins/literature/advantages.js'
import { literature } from '#plugins/literature/plugin.js'

beforeAll(() => addLossesOf([literature, literature]))

const refusal = (kind: JobKind, config: JsonObject): string => {
  try {
    resolveOptions(kind, config)
    return 'taken'
  } catch (error) {
    return (error as Error).message
  }
}
const mine = (): JsonObject =>
  traceLoss('rl', ({ ratio, advantage }, { mul, min, neg }) => neg(mul(min(ratio, 1.5), advantage)))

describe('a loss of a plugin', () => {
  it('brings its options, the core options that it sets, and its formula', () => {
    const { delta, epsilon, epsilon_high, loss_fn, loss_formula } = resolveOptions('rl', { loss_fn: 'dual_clip' })
    expect({ delta, epsilon, epsilon_high, loss_fn }).toEqual({
      delta: 4,
      epsilon: 0.2,
      epsilon_high: 0.2,
      loss_fn: 'dual_clip',
    })
    expect((loss_formula as unknown as Formula).nodes).toContainEqual(['clip', 0, 0.8, 1.2])
    expect(resolveOptions('rl', { loss_fn: 'luspo', epsilon: 0.01 })).toMatchObject({
      importance_sampling_level: 'sequence',
      loss_aggregation: 'constant',
      epsilon: 0.01,
      epsilon_high: 4e-4,
    })
    expect(resolveOptions('dpo', { loss_type: 'robust' })).toMatchObject({ beta: 0.1, label_smoothing: 0.1 })
    expect(resolveOptions('sft', { loss_type: 'dft' })).toMatchObject({ loss_type: 'dft' })
  })

  it('leaves jobs with the losses of the core as they were', () => {
    expect(resolveOptions('rl', {})).toMatchObject({ loss_fn: 'cispo', loss_formula: null, delta: null })
    expect(resolveOptions('dpo', {})).toMatchObject({ loss_type: 'sigmoid', loss_formula: null })
    expect(resolveOptions('sft', {})).toMatchObject({ loss_type: 'nll', loss_formula: null })
  })

  it.each<[JobKind, JsonObject]>([
    ['rl', { loss_fn: 'sapo', sapo_temperature_neg: 2 }],
    ['rl', { loss_fn: 'gspo_token', advantage_estimator: 'reinforce_plus_plus_baseline' }],
    ['rl', { loss_fn: 'custom', loss_formula: mine() }],
    ['dpo', { loss_type: 'exo_pair' }],
    ['sft', { loss_type: 'dft' }],
  ])('is the same when it is resolved once more: %s %j', (kind, config) => {
    const once = resolveOptions(kind, config)
    expect(resolveOptions(kind, once)).toEqual(once)
  })

  it.each<[JobKind, JsonObject, RegExp]>([
    ['rl', { loss_fn: 'ppo', delta: 3 }, /delta has no effect with loss_fn ppo: dual_clip reads it/],
    ['rl', { loss_fn: 'sapo', epsilon: 0.1 }, /epsilon has no effect with loss_fn sapo/],
    [
      'rl',
      { loss_fn: 'gpg', importance_sampling_level: 'sequence' },
      /importance_sampling_level has no effect with loss_fn gpg/,
    ],
    ['rl', { loss_fn: 'gmpo', mask_prob_ratio: true }, /mask_prob_ratio has no effect with loss_fn gmpo/],
    ['rl', { loss_fn: 'sapo', loss_formula: mine() }, /loss_formula has no effect with loss_fn sapo: custom reads it/],
    ['rl', { loss_formula: mine() }, /loss_formula has no effect with loss_fn cispo: custom reads it/],
    ['dpo', { loss_type: 'nca_pair', label_smoothing: 0.1 }, /label_smoothing has no effect with loss_type nca_pair/],
    ['rl', { loss_fn: 'grpo' }, /"grpo" is ppo here/],
    ['rl', { advantage_estimator: 'rloo' }, /"rloo" is leave_one_out here/],
    ['dpo', { loss_type: 'sppo' }, /"sppo" is sppo_hard here/],
    ['dpo', { loss_type: 'aot_pair' }, /"aot_pair" is aot here/],
    ['rl', { scale_rewards: 'batch' }, /"batch" is true with advantage_estimator group_batch_std here/],
    ['rl', { scale_rewards: 'none' }, /"none" is false here/],
    ['rl', { loss_fn: 'vespo' }, /'gmpo'/],
  ])('refuses what it does not read: %s %j', (kind, config, message) => {
    expect(refusal(kind, config)).toMatch(message)
  })
})

describe("a request's own formula", () => {
  it('is read and checked', () => {
    expect(resolveOptions('rl', { loss_fn: 'custom', loss_formula: mine() })).toMatchObject({ loss_formula: mine() })
    expect(refusal('rl', { loss_fn: 'custom' })).toMatch(/loss_formula is missing/)
    expect(refusal('rl', { loss_fn: 'custom', loss_formula: { nodes: [['input', 'chosen']] } })).toMatch(
      /inputs are logp/,
    )
    const still = traceFormula(['advantage'], ({ advantage }, { exp }) => exp(advantage))
    expect(refusal('rl', { loss_fn: 'custom', loss_formula: still })).toMatch(/does not read logp/)
    const broken = traceFormula(['logp', 'advantage'], ({ logp, advantage }, { div }) => div(logp, advantage))
    expect(refusal('rl', { loss_fn: 'custom', loss_formula: broken })).toMatch(/is (?:-?Infinity|NaN) with slope/)
    expect(refusal('dpo', { loss_type: 'custom', loss_formula: mine() })).toMatch(/inputs are chosen, rejected/)
    const sequences = traceFormula(['chosen', 'rejected'], ({ chosen }, { sequenceMean }) => sequenceMean(chosen))
    expect(refusal('dpo', { loss_type: 'custom', loss_formula: sequences })).toMatch(/operators are/)
  })

  it('may be of advantages', () => {
    const top = traceAdvantage(({ reward }, { sub, batchMean }) => sub(reward, batchMean(reward)))
    const resolved = resolveOptions('rl', { advantage_estimator: 'custom', advantage_formula: top })
    expect(resolved).toMatchObject({ scale_rewards: false, scale_batch: false, advantage_formula: top })
    expect(refusal('rl', { advantage_estimator: 'custom' })).toMatch(/advantage_formula is missing/)
    expect(refusal('rl', { advantage_formula: top })).toMatch(
      /advantage_formula has no effect with advantage_estimator group/,
    )
    expect(whichTrain([[1], [0], []], estimatorOf(resolved))).toEqual([null, null, 'empty'])
  })
})

describe('advantages of the plugin', () => {
  const rng = createRng('advantages')
  const mean = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0) / numbers.length
  const deviation = (numbers: readonly number[]) => Math.sqrt(mean(numbers.map((each) => (each - mean(numbers)) ** 2)))
  const of = (name: string) => estimatorOf({ advantage_estimator: name }) as Formula

  it('are what their papers say, on a hundred random jobs', () => {
    for (let job = 0; job < 100; job++) {
      const groups = Array.from({ length: 1 + rng.integer(5) }, () =>
        Array.from({ length: 1 + rng.integer(6) }, () => (job % 2 === 0 ? rng.integer(2) : rng.normal())),
      )
      const centred = groups.map((group) => group.map((reward) => reward - mean(group)))
      const wanted: Readonly<Record<string, number[][]>> = {
        group_batch_std: centred.map((group) => group.map((each) => each / (deviation(groups.flat()) + 1e-6))),
        reinforce_plus_plus_baseline: centred.map((group) =>
          group.map((each) => each / (deviation(centred.flat()) + 1e-6)),
        ),
      }
      for (const { name } of ADVANTAGES) {
        if (wanted[name] === undefined) continue
        const got = formulaAdvantages(groups, of(name))
        got.forEach((group, g) => {
          group.forEach((each, i) => {
            expect(Math.abs(each - wanted[name]![g]![i]!), name).toBeLessThanOrEqual(1e-9)
          })
        })
        const trains = groups.map((group) => Math.max(...group) - Math.min(...group) > 1e-12)
        expect(whichTrain(groups, of(name)).map((reason) => reason === null)).toEqual(trains)
        expect(countTraining(groups, of(name))).toBe(trains.filter(Boolean).length)
      }
    }
  })

  it('differ from each other and from the core where groups differ in size of their rewards', () => {
    const groups = [
      [0, 1],
      [0, 10],
    ]
    const [std, baseline] = ['group_batch_std', 'reinforce_plus_plus_baseline'].map((name) =>
      formulaAdvantages(groups, of(name)),
    )
    expect(std![1]![1]! / std![0]![1]!).toBeCloseTo(10, 9)
    // the deviation of all rewards, and of what their groups' means leave
    expect(std![0]![1]).toBeCloseTo(0.5 / Math.sqrt(mean([0, 1, 0, 100]) - mean([0, 1, 0, 10]) ** 2), 5)
    expect(baseline![0]![1]).toBeCloseTo(0.5 / Math.sqrt(mean([0.25, 0.25, 25, 25])), 5)
  })

  it('compare with the greedy answer of each group, which is one of it', () => {
    const groups = [
      [1, 0, 0],
      [2, 2],
    ]
    expect(formulaAdvantages(groups, of('remax'), [0, 2])).toEqual([
      [1, 0, 0],
      [0, 0],
    ])
    expect(whichTrain(groups, of('remax'))).toEqual([null, 'equal_rewards'])
  })

  it('leave out groups of equal rewards, with their reason', () => {
    expect(whichTrain([[0.1, 0.1, 0.1], [1], [0, 1]], of('group_batch_std'))).toEqual([
      'equal_rewards',
      'single_trajectory',
      null,
    ])
  })
})
