/** When a demo ends for want of time: never before there is something to see, unless the reader set the limit. */
import { expect, test } from 'vitest'
import { isOutOfTime } from '#plugins/demo/outcome.js'

const at = (reward: number) => ({ event: { held_out_reward: reward } })

test.each([
  ['in time', 60_000, 0.3, false],
  ['late, with a gain to show', 71_000, 0.65, true],
  ['late, with little to show', 71_000, 0.4, false],
  ['late, worse than before', 71_000, 0.1, false],
  ['far too late, with nothing to show', 421_000, 0.3, true],
])('%s', (_, endMs, reward, isOver) => {
  expect(isOutOfTime({ budgetMs: 70_000, longestMs: 420_000 }, { endMs, before: at(0.3), latest: at(reward) })).toBe(
    isOver,
  )
})
test('a limit that was asked for is kept', () => {
  const limit = { budgetMs: 5000, longestMs: 5000 }
  expect(isOutOfTime(limit, { endMs: 5001, before: at(0.3), latest: at(0.3) })).toBe(true)
})
