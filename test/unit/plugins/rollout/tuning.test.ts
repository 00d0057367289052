/** Which rates are tried, what is held out, and which one is chosen. */
import { describe, expect, test } from 'vitest'
import {
  bestOf,
  forkName,
  judge,
  leftForks,
  ratesAround,
  sayChoice,
  splitPrompts,
  type Trial,
} from '#plugins/rollout/tuning.js'
import { Trajectory, TrajectoryGroup } from '#rl.js'

const group = (...rewards: readonly number[]) =>
  new TrajectoryGroup(
    rewards.map((reward) => Object.assign(new Trajectory([{ role: 'user', content: 'q' }]), { reward })),
  )
const trial = (rate: number, reward: number, interval: Trial['interval'] = null): Trial => ({
  rate,
  reward,
  difference: reward - 0.5,
  interval,
  wins: 0,
  ties: 0,
  losses: 0,
})

test.each([
  [1e-3, [1e-3, 3e-4, 3e-3]],
  [5e-6, [5e-6, 2e-6, 2e-5]],
  [1.5e-3, [2e-3, 5e-4, 5e-3]],
])('around %s are %j', (rate, expected) => {
  expect(ratesAround(rate)).toEqual(expected)
})

test('every fourth prompt is held out, and too few are refused', () => {
  const { training, heldOut } = splitPrompts([0, 1, 2, 3, 4, 5, 6, 7])
  expect([training, heldOut]).toEqual([
    [0, 1, 2, 4, 5, 6],
    [3, 7],
  ])
  expect(() => splitPrompts([1, 2, 3])).toThrow('3 prompts are too few')
})

test('a trial compares prompt by prompt, without those that failed', () => {
  const { reward, wins, ties, losses, difference } = judge(
    1e-3,
    [group(0, 1), group(1, 1), group(0, 0), group(1)],
    [group(1, 1), group(1, 0), group(0, 0), group()],
  )
  expect({ reward, wins, ties, losses, difference }).toEqual({
    reward: 0.5,
    wins: 1,
    ties: 1,
    losses: 1,
    difference: 0,
  })
  expect(() => judge(1e-3, [group()], [group(1)])).toThrow('no held-out prompt was answered')
})

describe('the choice', () => {
  test('is the highest reward, of equal ones the lower rate, and says what the others reached', () => {
    const trials = [trial(1e-3, 0.7, [0.1, 0.3]), trial(3e-4, 0.7, [0.1, 0.3]), trial(3e-3, 0.1)]
    const best = bestOf(trials)
    expect(best?.rate).toBe(3e-4)
    expect(sayChoice(best, trials, 0.5)).toBe(
      '3e-4 is best: held-out reward 0.7 after its job, 0.5 before; 1e-3 reached 0.7, 3e-3 reached 0.1',
    )
    expect(sayChoice(trials[2]!, trials.slice(2), 0.05)).toContain('(it may be chance)')
  })

  test('is none where no job is better than none', () => {
    const trials = [trial(1e-3, 0.5), trial(3e-4, 0.4)]
    expect(bestOf(trials)).toBeNull()
    expect(sayChoice(null, trials, 0.5)).toBe(
      'no rate is better than no job: held-out reward 0.5 before, 1e-3 reached 0.5, 3e-4 reached 0.4',
    )
  })
})

test('forks that a killed run left are known by their names', () => {
  const uuid = '01a221c1-4941-73f5-847b-a93dbaf6022f'
  const names = [
    'orders',
    forkName('orders', uuid),
    // somebody's own, and another model's
    'orders-tune-by-hand',
    forkName('orders-2', uuid),
  ]
  const left = leftForks(
    names.map((name) => ({ name })),
    'orders',
  )
  expect(left.map(({ name }) => name)).toEqual([forkName('orders', uuid)])
})
