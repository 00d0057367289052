/**
 * Rules of which checkpoints stay.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { keptSteps, parseKeepRule } from '#contract/jobs/keep-rule.js'

const step = (number: number, metrics: Readonly<Record<string, number>> = {}) => ({ step: number, metrics })

describe('a rule', () => {
  it('is read from its words', () => {
    expect(parseKeepRule('all')).toBeNull()
    expect(parseKeepRule('last 5, best val/reward, best loss/train,every 10')).toEqual({
      ...{ last: 5, every: 10, best: ['val/reward', 'loss/train'] },
    })
    expect(parseKeepRule('best val/reward')).toEqual({ last: 1, every: null, best: ['val/reward'] })
  })

  it.each([
    '',
    'none',
    'last',
    'last 0',
    'last -1',
    'last 1.5',
    'every 1e3',
    'all, last 3',
    'last 3, last 4',
    'best',
    'last 3,',
  ])('that says nothing is refused: "%s"', (text) => {
    expect(typeof parseKeepRule(text)).toBe('string')
  })

  it('keeps what any part names: the last, the best by a metric in its direction, of equals the newest, and multiples', () => {
    const steps = [
      step(1, { 'val/reward': 0.9, 'loss/train': 3 }),
      step(2, { 'val/reward': 0.1, 'loss/train': 1 }),
      step(3, { 'val/reward': 0.9 }),
      step(4),
      step(6),
      step(7),
    ]
    const kept = (rule: string): number[] => {
      const parsed = parseKeepRule(rule)
      if (parsed === null || typeof parsed === 'string') throw new Error(rule)
      return [...keptSteps(steps, parsed)].sort((a, b) => a - b)
    }
    expect(kept('last 2')).toEqual([6, 7])
    expect(kept('best val/reward')).toEqual([3, 7])
    expect(kept('best loss/train')).toEqual([2, 7])
    expect(kept('every 3')).toEqual([3, 6, 7])
    expect(kept('last 2, best loss/train, every 4')).toEqual([2, 4, 6, 7])
    expect(kept('best no/such')).toEqual([7])
  })

  it('never lets the newest go, whatever it says', () => {
    const rng = createRng('keep rules')
    for (let n = 0; n < 100; n++) {
      const steps = Array.from({ length: 1 + rng.integer(20) }, (_, i) =>
        step(1 + i * (1 + rng.integer(1)), { m: rng.integer(5) }),
      )
      const rule = {
        last: 1 + rng.integer(4),
        best: rng.integer(2) === 0 ? [] : ['m'],
        every: rng.integer(2) === 0 ? null : 1 + rng.integer(5),
      }
      const kept = keptSteps(steps, rule)
      expect(kept.has(steps.at(-1)?.step ?? 0)).toBe(true)
      for (const one of kept) expect(steps.some((each) => each.step === one)).toBe(true)
    }
  })
})
