/** Curves of the page: smoothing, and sentences. */
import { describe, expect, test } from 'vitest'
import {
  boundariesOf,
  defaultKeys,
  describeCurve,
  smooth,
  spansDecades,
} from '../../../../../../src/plugins/page/browser/data/curves.js'

describe('smoothing', () => {
  test('without weight it changes nothing, and gaps stay gaps', () => {
    expect(smooth([1, null, 3], 0)).toEqual([1, null, 3])
    expect(smooth([1, null, 3], 0.5)[1]).toBeNull()
  })

  test('a constant stays what it is from the first value on', () => {
    for (const value of smooth([2, 2, 2, 2], 0.9)) expect(value).toBeCloseTo(2, 12)
  })

  test('equals the weighted mean by its definition', () => {
    const values = [1, 5, -2, 8]
    const weight = 0.7
    const last = smooth(values, weight).at(-1)
    const weights = values.map((_, i) => weight ** (values.length - 1 - i))
    const mean =
      values.reduce((sum, value, i) => sum + value * (weights[i] ?? 0), 0) /
      weights.reduce((sum, value) => sum + value, 0)
    expect(last).toBeCloseTo(mean, 12)
  })
})

describe('a curve in words', () => {
  test.each([
    [[0.41, 0.66, 0.62], 'Reward from 0.41 at step 1 to 0.62 at step 3, highest 0.66 at step 2.'],
    [[0.41, null, 0.62], 'Reward from 0.41 at step 1 to 0.62 at step 3, its highest.'],
    [[null, 0.5, null], 'Reward 0.5 at step 2.'],
    [[null, null, null], 'Reward: no value yet.'],
  ])('%j', (values, words) => {
    expect(describeCurve('Reward', [1, 2, 3], values, 'high')).toBe(words)
  })

  test('names the lowest where low is good', () => {
    expect(describeCurve('Loss', [1, 2, 3], [3, 1, 2], 'low')).toBe(
      'Loss from 3 at step 1 to 2 at step 3, lowest 1 at step 2.',
    )
  })
})

test('charts at first: rewards, then numbers of the reward that change, then how much and how soundly was trained', () => {
  const steps = [1, 2]
  const series = {
    'loss/grad_norm': [1, 2],
    'train/reward': [0, 1],
    'train/reward_std_dev': [0.1, 0.2],
    'train/words': [3, 5],
    'train/language': [1, 1],
    'train/completion_tokens': [12, 12],
    'data/step_trainer_tokens': [80, 90],
  }
  const curves = {
    object: 'model.metrics' as const,
    model_id: 'm',
    steps,
    times: ['2026-01-01T00:00:00Z', '2026-01-01T00:01:00Z'],
    tokens: [80, 170],
    job_ids: ['a', 'b'],
    session_ids: [null, null],
    series,
    keys: [],
  }
  expect(defaultKeys(curves)).toEqual([
    ...['train/reward', 'train/words', 'train/completion_tokens', 'data/step_trainer_tokens', 'loss/grad_norm'],
  ])
})

describe('a log scale', () => {
  test.each([
    [[8, 1, 2e-5], true],
    [[8, null, 0.008], true],
    [[8, 4, 0.01], false],
    [[8, 0, 2e-5], false],
    [[8, -1, 2e-5], false],
    [[null], false],
    [[], false],
  ])('of %j: %s', (values, isWide) => expect(spansDecades(values)).toBe(isWide))
})

test('a run begins where another loop made the step; deleted steps and the base model are no run', () => {
  const job_ids = [null, 'a', 'b', null, null, null, 'c', null, 'd']
  const session_ids = [null, null, null, 'S', 'S', 'T', null, null, null]
  expect(boundariesOf({ job_ids, session_ids })).toEqual([3, 5, 6])
})
