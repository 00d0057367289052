/** The rules of `src/docs/reference/how-training-works.md` with vectors computed from its formulas. */
import { describe, expect, it } from 'vitest'
import {
  advantagesOf,
  groupAdvantages,
  normalizeBatch,
  softOverlengthPenalty,
  trajectoryWeight,
} from '#training/rows/advantages.js'
import vectors from '../../../fixtures/trajectories/advantage-vectors.json' with { type: 'json' }
import { forSeeds } from '../../../support/model/random-trajectories.js'

describe('groupAdvantages', () => {
  for (const { rewards, scaleRewards, advantages } of vectors.groups) {
    it(`gives the published advantages of ${JSON.stringify(rewards)} ${scaleRewards ? 'scaled' : 'unscaled'}`, () => {
      const got = groupAdvantages(rewards, scaleRewards)
      expect(got.length).toBe(advantages.length)
      got.forEach((value, i) => {
        expect(value).toBeCloseTo(advantages[i] ?? Number.NaN, 6)
      })
    })
  }

  it('treats rewards that are equal up to a float mean as no variance', () => {
    expect(groupAdvantages([0.1, 0.1, 0.1], true)).toEqual([0, 0, 0])
    expect(groupAdvantages([0.3, 0.1 + 0.2], true)).toEqual([0, 0])
  })

  it('gives nothing for groups of none and one', () => {
    expect(groupAdvantages([], true)).toEqual([])
    expect(groupAdvantages([5], true)).toEqual([0])
  })

  it('gives 0 to a reward that equals the mean of a mixed group', () => {
    expect(groupAdvantages([0.1, 0.2, 0.3], true)[1]).toBe(0)
  })

  it('sums to zero in every group, and is blind to a shift of all rewards', () => {
    forSeeds(200, (rng) => {
      const rewards = Array.from({ length: 2 + rng.integer(10) }, () => rng.normal())
      const scaled = groupAdvantages(rewards, true)
      expect(Math.abs(scaled.reduce((a, b) => a + b, 0))).toBeLessThan(1e-9)
      groupAdvantages(
        rewards.map((reward) => reward + 3),
        true,
      ).forEach((value, i) => {
        expect(Math.abs(value - (scaled[i] ?? Number.NaN))).toBeLessThan(1e-6)
      })
    })
  })
})

describe('advantagesOf', () => {
  const rewards = [[1, 0, 0], [1, 1], [0.5]]

  it('compares with the mean of the others of a group under leave_one_out: none in a group of one', () => {
    const got = advantagesOf(rewards, { advantageEstimator: 'leave_one_out', scaleRewards: false })
    // written from the definition: r_i minus the mean of the others
    expect(got[0]![0]).toBeCloseTo(1 - 0, 12)
    expect(got[0]![1]).toBeCloseTo(0 - 0.5, 12)
    expect(got.slice(1)).toEqual([[0, 0], [0]])
  })

  it('agrees with the definition of leave_one_out on random groups', () => {
    forSeeds(50, (rng) => {
      const group = Array.from({ length: 2 + rng.integer(6) }, () => rng.normal())
      const [got] = advantagesOf([group], { advantageEstimator: 'leave_one_out', scaleRewards: false })
      group.forEach((reward, i) => {
        const others = group.filter((_, j) => j !== i)
        const baseline = others.reduce((sum, value) => sum + value, 0) / others.length
        expect(got![i]).toBeCloseTo(reward - baseline, 9)
      })
    })
  })

  it('compares with all rewards under batch, so that groups of one and of equal rewards train', () => {
    const got = advantagesOf(rewards, { advantageEstimator: 'batch', scaleRewards: false })
    const mean = 3.5 / 6
    expect(got.map((group) => group.length)).toEqual([3, 2, 1])
    expect(got.flat()).toEqual(rewards.flat().map((reward) => expect.closeTo(reward - mean, 12)))
    const scaled = advantagesOf(rewards, { advantageEstimator: 'batch', scaleRewards: true }).flat()
    expect(Math.sqrt(scaled.reduce((sum, a) => sum + a * a, 0) / 6)).toBeCloseTo(1, 5)
    expect(advantagesOf([[1], [1, 1]], { advantageEstimator: 'batch', scaleRewards: true }).flat()).toEqual([0, 0, 0])
  })

  it('is the mean of each group unless something is said', () => {
    expect(advantagesOf(rewards, { scaleRewards: true })).toEqual(rewards.map((group) => groupAdvantages(group, true)))
  })
})

describe('softOverlengthPenalty', () => {
  it.each([
    [80, 0],
    [81, -0.05],
    [90, -0.5],
    [100, -1],
    [500, -1],
  ])('of %i tokens is %d at a limit of 100 with a buffer of 20', (tokens, penalty) => {
    expect(softOverlengthPenalty(tokens, { limit: 100, buffer: 20 })).toBeCloseTo(penalty, 12)
  })
})

describe('normalizeBatch', () => {
  const sequences = vectors.batch.trajectories.map(({ advantage, tokens }) => ({
    advantage,
    weight: trajectoryWeight(tokens, 'trajectory'),
    trainableTokenCount: tokens,
  }))

  it('gives the published weights of two trajectories with 2 and 3 tokens', () => {
    const weights = normalizeBatch(sequences, 0).map((c) => c.weight)
    expect(weights[0]).toBeCloseTo(1.25, 5)
    expect(weights[1]).toBeCloseTo(0.833333, 5)
  })

  for (const { balance, advantages } of vectors.batch.balanced) {
    it(`gives the published advantages with balance ${balance}`, () => {
      const got = normalizeBatch(sequences, balance).map((c) => c.advantage)
      got.forEach((value, i) => {
        expect(value).toBeCloseTo(advantages[i] ?? Number.NaN, 5)
      })
    })
  }

  it('agrees with the closed form: weight N / (M n_i), advantage a_i / mean |a|', () => {
    forSeeds(200, (rng) => {
      const list = Array.from({ length: 1 + rng.integer(8) }, () => {
        const tokens = 1 + rng.integer(50)
        return { advantage: rng.normal(), weight: trajectoryWeight(tokens, 'trajectory'), trainableTokenCount: tokens }
      })
      const tokenCount = list.reduce((sum, s) => sum + s.trainableTokenCount, 0)
      const meanAbsolute = list.reduce((sum, s) => sum + Math.abs(s.advantage), 0) / list.length
      normalizeBatch(list, 0).forEach((got, i) => {
        const { advantage, trainableTokenCount } = list[i] ?? { advantage: 0, trainableTokenCount: 1 }
        expect(Math.abs(got.weight - tokenCount / (list.length * trainableTokenCount)) / got.weight).toBeLessThan(1e-5)
        expect(Math.abs(got.advantage - advantage / meanAbsolute)).toBeLessThan(1e-4)
      })
    })
  })

  it('keeps the token mean of |advantage| * weight at 1 whatever the balance', () => {
    forSeeds(100, (rng) => {
      const list = [1, -1, rng.normal(), rng.normal()].map((advantage) => {
        const tokens = 1 + rng.integer(9)
        return { advantage, weight: trajectoryWeight(tokens, 'trajectory'), trainableTokenCount: tokens }
      })
      const got = normalizeBatch(list, rng.uniform() * 2 - 1)
      const tokens = list.reduce((sum, s) => sum + s.trainableTokenCount, 0)
      const mean =
        got.reduce((sum, c, i) => sum + Math.abs(c.advantage) * c.weight * (list[i]?.trainableTokenCount ?? 0), 0) /
        tokens
      expect(mean).toBeCloseTo(1, 9)
    })
  })

  it('weighs every token the same under token aggregation', () => {
    const list = [2, 3].map((tokens) => ({
      advantage: 1,
      weight: trajectoryWeight(tokens, 'token'),
      trainableTokenCount: tokens,
    }))
    expect(normalizeBatch(list, 0).map((c) => c.weight)).toEqual([1, 1])
  })

  it('leaves advantages as rewards say where the batch is not scaled, weights as ever', () => {
    const scaled = normalizeBatch(sequences, 0.5)
    const got = normalizeBatch(sequences, 0.5, false)
    expect(got.map((c) => c.weight)).toEqual(scaled.map((c) => c.weight))
    expect(got.map((c) => c.advantage)).toEqual(sequences.map(({ advantage: a }) => (a < 0 ? a * 0.5 : a)))
  })

  it('leaves zeros when balance removes everything, and does nothing on an empty batch', () => {
    expect(normalizeBatch([{ advantage: -1, weight: 1, trainableTokenCount: 2 }], 1)).toEqual([
      { advantage: -0, weight: 1 },
    ])
    expect(normalizeBatch([], 0)).toEqual([])
  })
})
