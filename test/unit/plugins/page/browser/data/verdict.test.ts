/** Whether a model learns, in words, by the interval of its evaluations. */
import { expect, test } from 'vitest'
import type { LogComparison } from '#contract/wire/log-comparison.js'
import type { Curves } from '../../../../../../src/plugins/page/browser/data/curves.js'
import { evaluatedOf, verdictOf } from '../../../../../../src/plugins/page/browser/data/verdict.js'

const compared = (interval: readonly [number, number] | null, prompts = 24) =>
  ({
    split: 'val',
    a: { step: 0 },
    b: { step: 9 },
    prompts,
    rewards: [0.25, 0.5],
    interval,
  }) as unknown as LogComparison

test('an interval above nothing learns, one that is not does not, one around it cannot be said', () => {
  expect(verdictOf(compared([0.1, 0.4]), 'x').word).toBe('Learns')
  expect(verdictOf(compared([-0.4, -0.1]), 'x').word).toBe('Does not learn')
  expect(verdictOf(compared([0, 0]), 'x').word).toBe('Does not learn')
  expect(verdictOf(compared([-0.1, 0.4]), 'x')).toMatchObject({
    word: 'Cannot be said yet',
    why: expect.stringContaining('may be chance'),
  })
  for (const nothing of [null, compared(null), compared([0.1, 0.4], 0)])
    expect(verdictOf(nothing, 'x').word).toBe('Cannot be said yet')
  expect(verdictOf(compared([0.1, 0.4]), 'x').why).toBe(
    'Reward, validation: 0.25 → 0.5 from the base model to step 9; it changed by 0.1 to 0.4 (95%, 24 prompts).',
  )
})

test('what is kept from training is judged, from its first step to its newest', () => {
  const key = (name: string, source: 'job' | 'log') => ({
    key: name,
    source,
    split: name.split('/')[0] ?? null,
    count: 2,
  })
  const curves = {
    steps: [0, 1, 2, 3],
    series: { 'train/reward': [0, 1, 1, 1], 'mine/reward': [0, 1, 1, 1], 'val/reward': [null, 0.25, 0.5, null] },
    keys: [key('train/reward', 'log'), key('mine/reward', 'log'), key('val/reward', 'log')],
  } as unknown as Curves
  expect(evaluatedOf(curves)).toEqual({ split: 'val', a: 1, b: 2 })
  expect(evaluatedOf({ ...curves, keys: curves.keys.slice(0, 2) })).toEqual({ split: 'mine', a: 0, b: 3 })
  expect(evaluatedOf({ ...curves, keys: [key('train/reward', 'job')] })).toBeNull()
})
