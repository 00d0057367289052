/** When a loop of rewards ends, and which step was best. */
import { expect, test } from 'vitest'
import { bestOf, endOf } from '#plugins/rollout/train/reward-loop.js'

const points = (...rewards: readonly number[]) => rewards.map((reward, step) => ({ step, reward }))
const at = { jobs: 5, idle: 0, range: [0, 1] as const }

test.each([
  ['goes on before anything is measured', [], at, null],
  ['goes on while it helps', [0.1, 0.2, 0.3], at, null],
  ['goes on after one job that was no better', [0.1, 0.3, 0.2], at, null],
  ['ends after two that were no better than the best', [0.1, 0.3, 0.2, 0.3], at, 'no_better'],
  ['goes on where a later one was better again', [0.1, 0.3, 0.2, 0.4], at, null],
  ['ends at nearly all there is', [0.1, 0.96], at, 'learned'],
  ['knows no "all" without a range', [0.1, 0.96], { ...at, range: null }, null],
  ['ends at the best of penalties', [-1, 0], { ...at, range: [-1, 0] }, 'learned'],
  ['ends where two rounds had nothing to train', [0.1], { ...at, idle: 2 }, 'nothing_to_train'],
  ['ends after so many jobs', [0.1, 0.2, 0.3], { ...at, jobs: 2 }, 'jobs'],
] as const)('a loop %s', (_, rewards, options, end) => {
  expect(endOf(points(...rewards), options)).toBe(end)
})

test('of equal rewards the first step is best', () => {
  expect(bestOf(points(0.2, 0.5, 0.5, 0.4))).toEqual({ step: 1, reward: 0.5 })
})
