import { expect, test } from 'vitest'
import { addUpUsage, firstDay } from '../../../../../../src/plugins/page/browser/data/usage.js'

const row = (day: string, model: string, tokens: number) => ({
  day,
  model,
  project: 'p',
  requests: 1,
  prompt_tokens: tokens,
  cached_tokens: 1,
  completion_tokens: 2,
  training_seconds: 0.5,
})
const ROWS = [row('2026-11-01', 'a', 1), row('2026-11-01', 'b', 5), row('2026-11-02', 'a', 3)]

test('usage is added up by day from the newest, by model from the largest; every row counts once', () => {
  expect(addUpUsage(ROWS, 'day').map(({ name, requests }) => [name, requests])).toEqual([
    ['2026-11-02', 1],
    ['2026-11-01', 2],
  ])
  expect(addUpUsage(ROWS, 'model').map(({ name }) => name)).toEqual(['a', 'b'])
  expect(addUpUsage(ROWS, 'project')).toEqual([
    { name: 'p', requests: 3, prompt_tokens: 9, cached_tokens: 3, completion_tokens: 6, training_seconds: 1.5 },
  ])
})

test('so many days end today, by the days of UTC', () => {
  expect(firstDay(30, Date.parse('2026-11-30T23:59:00Z'))).toBe('2026-11-01')
  expect(firstDay(1, Date.parse('2026-03-01T00:00:00Z'))).toBe('2026-03-01')
})
