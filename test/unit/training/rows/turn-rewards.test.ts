/** Rewards of turns and tokens: advantages by what is still to be earned, against sums written out; greedy answers. */
import { describe, expect, it } from 'vitest'
import { traceFormula } from '#base/formula/formula.js'
import { createRng } from '#base/util/rng.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { buildTrainingBatch } from '#training/rows/training-batch.js'
import { advantagesOfGroups } from '#training/rows/turn-rewards.js'
import { createWordText } from '../../../support/model/random-trajectories.js'

type Json = Record<string, unknown>
const user = { role: 'user', content: 'x' }

function turn(prompt: readonly number[], ids: readonly number[], extra: Json = {}): Json {
  const content = ids.map((id) => ({ token: `token_id:${id}`, logprob: -1, bytes: null, top_logprobs: [] }))
  const message = { role: 'assistant', content: 'x' }
  return {
    ...{ index: 0, finish_reason: 'stop', message, token_ids: ids, prompt_token_ids: prompt },
    ...{ logprobs: { content }, ...extra },
  }
}

/** An episode of turns of two tokens each, every prompt all before it and one token more. */
function episode(reward: number, rewards: readonly unknown[], extra: Json = {}): Json {
  const ids = [1]
  const items: Json[] = []
  for (const earned of rewards) {
    const own = [ids.length + 1, ids.length + 2]
    items.push(user, turn([...ids], own, { ...(earned === undefined ? {} : { reward: earned }), ...extra }))
    ids.push(...own, 9)
  }
  return { messages_and_choices: items, reward }
}

const parse = (groups: readonly (readonly Json[])[]) =>
  parseTrajectoryGroups(groups.map((trajectories) => ({ trajectories })))

const options: Parameters<typeof buildTrainingBatch>[1] = {
  ...{
    scaleRewards: false,
    lossAggregation: 'token' as const,
    allowTrainingWithoutLogprobs: false,
    maskTruncated: false,
  },
  ...{ advantageBalance: 0, scaleBatch: false, packedSequenceLength: null, tokensPerStep: null },
  ...{ gradAccumulationSequences: 1, contextLength: 64, padTokenId: 0, seed: 1, text: createWordText() },
}

/** Advantages of the trained tokens of each trajectory. */
function trained(groups: readonly (readonly Json[])[], more: Partial<Parameters<typeof buildTrainingBatch>[1]> = {}) {
  const { sequences, steps } = buildTrainingBatch(parse(groups), { ...options, ...more })
  const inRows = steps.flatMap(({ rows }) =>
    rows.flatMap(({ advantages, lossMask }) => [...advantages].filter((_, t) => lossMask[t] === 1)),
  )
  const own = sequences.map(({ tokenAdvantages, advantage, lossMask }) =>
    [...lossMask].flatMap((bit, t) => (bit === 1 ? [tokenAdvantages?.[t] ?? advantage] : [])),
  )
  // what is packed is what was computed
  expect(inRows.toSorted()).toEqual(own.flat().map(Math.fround).toSorted())
  return own
}

describe('rewards of turns', () => {
  it('take from a token what was earned before it, beside what so many turns earn on average', () => {
    const groups = [[episode(3, [2, 1]), episode(1, [0, 1])]]
    // means: 2 a trajectory, 1 a turn
    expect(trained(groups)).toEqual([
      [1, 1, 1 - (2 - 1), 1 - (2 - 1)],
      [-1, -1, -1 - (0 - 1), -1 - (0 - 1)],
    ])
  })

  it('may be of tokens', () => {
    const groups = [
      [
        episode(3, [
          [2, 0],
          [1, 0],
        ]),
        episode(1, [
          [0, 0],
          [0, 1],
        ]),
      ],
    ]
    const mean = 4 / 8
    const left = (advantage: number, rewards: readonly number[]) =>
      rewards.map((_, t) => advantage - (rewards.slice(0, t).reduce((a, b) => a + b, 0) - t * mean))
    expect(trained(groups)).toEqual([left(1, [2, 0, 1, 0]), left(-1, [0, 0, 0, 1])])
  })

  it('are divided as advantages are, in groups and over all', () => {
    const groups = [
      [episode(3, [2, 1]), episode(1, [0, 1])],
      [episode(8, [8]), episode(0, [0])],
    ]
    const [first] = trained(groups, { scaleRewards: true })
    expect(first![0]).toBeCloseTo(1, 5)
    expect(first![2]).toBeCloseTo((1 - (2 - 1)) / 1, 5)
    const all = [3, 1, 8, 0]
    const mean = all.reduce((a, b) => a + b) / 4
    const deviation = Math.sqrt(all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / 4)
    const step = (2 + 1 + 0 + 1 + 8 + 0) / 6
    const [batch] = trained(groups, { scaleRewards: true, advantageEstimator: 'batch' })
    expect(batch![2]).toBeCloseTo((3 - mean - (2 - step)) / deviation, 5)
  })

  it('leave every token its advantage where all stand at the first turn of one', () => {
    const rng = createRng('turn rewards')
    for (let round = 0; round < 50; round++) {
      const rewards = Array.from({ length: 2 + rng.integer(4) }, () => rng.normal())
      const plain = rewards.map((reward) => episode(reward, [undefined]))
      const said = rewards.map((reward) => episode(reward, [reward]))
      const [got, wanted] = [said, plain].map((group) => trained([group], { scaleRewards: true, scaleBatch: true }))
      got!.flat().forEach((each, i) => {
        expect(Math.abs(each - wanted!.flat()[i]!)).toBeLessThan(1e-12)
      })
    }
  })

  it('keep a trajectory that earned the mean, and scale by the size of all tokens', () => {
    const groups = [[episode(2, [2, 0]), episode(2, [0, 2]), episode(5, [5]), episode(-1, [-1])]]
    const own = trained(groups)
    expect(own).toHaveLength(4)
    const scaled = trained(groups, { scaleBatch: true }).flat()
    expect(scaled.reduce((sum, each) => sum + Math.abs(each), 0) / scaled.length).toBeCloseTo(1, 5)
    // equal rewards are a group that does not train, wherever they were earned
    expect(trained([[episode(2, [2, 0]), episode(2, [0, 2])]])).toEqual([])
  })

  it.each([
    [{ reward: 'much' }, /reward must be a finite number, or a list of one a token, got 'much'/],
    [{ reward: [1] }, /reward has 1 numbers for 2 tokens/],
    [{ reward: [1, null] }, /reward has as element 1 null/],
  ])('are refused as %j', (extra, said) => {
    expect(() => parse([[episode(1, [undefined], extra), episode(0, [undefined])]])).toThrow(said)
  })

  it('need the reward of all', () => {
    const { messages_and_choices } = episode(1, [1])
    expect(() => parse([[{ messages_and_choices }]])).toThrow(
      /trajectories\[0\]\.reward is required beside rewards of turns/,
    )
  })

  it('are refused by advantages that do not read them', () => {
    const advantageEstimator = traceFormula(['reward'], ({ reward }, { sub, batchMean }) =>
      sub(reward, batchMean(reward)),
    )
    const groups = parse([[episode(1, [1]), episode(0, [0])]])
    expect(() => advantagesOfGroups(groups, { advantageEstimator, scaleRewards: false })).toThrow(
      /trajectory_groups\[0\] has rewards of turns, which the advantage_estimator does not read/,
    )
  })
})

describe('the greedy answer of a group', () => {
  const remax = traceFormula(['reward', 'greedy'], ({ reward, greedy }, { sub }) => sub(reward, greedy))
  const greedy = { sampling: { temperature: 0 } }

  it('is what others are compared with, and does not train', () => {
    const group = [
      episode(3, [undefined]),
      episode(1, [undefined], greedy),
      episode(1, [undefined]),
      episode(0, [undefined]),
    ]
    expect(trained([group], { advantageEstimator: remax })).toEqual([
      [2, 2],
      [-1, -1],
    ])
  })

  it('is asked for where it is missing', () => {
    expect(() => trained([[episode(1, [undefined]), episode(0, [undefined])]], { advantageEstimator: remax })).toThrow(
      /trajectory_groups\[0\] has no answer drawn at temperature 0/,
    )
  })
})
