/** Pooled metrics of a split: any way of cutting groups into log calls gives the values of one call with all of them. */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { logMetrics } from '#formats/rows/metrics.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import {
  decodeTotals,
  encodeTotals,
  poolTotals,
  type SplitTotals,
  splitTotals,
  toMetrics,
} from '#formats/rows/split-metrics.js'

const exception = { type: 'E', message: 'm', traceback: '' }

function randomGroups(count: number, seed: number) {
  const rng = createRng(seed)
  return parseTrajectoryGroups(
    Array.from({ length: count }, () => ({
      trajectories: Array.from({ length: rng.integer(5) }, () => ({
        reward: rng.normal(),
        metrics: { turns: rng.integer(9), ...(rng.uniform() < 0.5 ? { rare: rng.normal() } : {}) },
      })),
      exceptions: Array.from({ length: rng.integer(2) }, () => exception),
      metrics: { size: rng.integer(100) },
    })),
  )
}

describe('split totals', () => {
  it('repeated logs are one log with all the trajectories, not a mean of means', () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const groups = randomGroups(12, seed)
      const whole = toMetrics(splitTotals(groups, 'val'))
      const rng = createRng(seed)
      let pooled: SplitTotals = new Map()
      for (let start = 0; start < groups.length; ) {
        const size = 1 + rng.integer(5)
        // stored between calls, as the service does
        pooled = decodeTotals(encodeTotals(poolTotals(pooled, splitTotals(groups.slice(start, start + size), 'val'))))
        start += size
      }
      const metrics = toMetrics(pooled)
      expect(Object.keys(metrics).sort()).toEqual(Object.keys(whole).sort())
      for (const [name, value] of Object.entries(whole)) expect(metrics[name], name).toBeCloseTo(value, 10)
    }
  })

  it('weights by trajectories: one answer beside three counts once, not half', () => {
    const one = parseTrajectoryGroups([{ trajectories: [{ reward: 1 }] }])
    const three = parseTrajectoryGroups([{ trajectories: [{ reward: 0 }, { reward: 0 }, { reward: 0 }] }])
    const pooled = poolTotals(splitTotals(one, 'val'), splitTotals(three, 'val'))
    expect(toMetrics(pooled)).toMatchObject({ 'val/reward': 0.25, 'val/data/step_num_trajectories': 4 })
  })

  it('takes the mean of a metric as a training job does, to the last bit', () => {
    const trajectories = Array.from({ length: 12 }, (_, i) => ({ reward: i, metrics: { solved: i % 2 === 0 } }))
    const groups = parseTrajectoryGroups([{ trajectories }])
    expect(toMetrics(splitTotals(groups, 'val'))).toMatchObject({ 'val/solved': 0.5 })
    expect(logMetrics(groups, 'val')).toMatchObject({ 'val/solved': 0.5 })
  })

  it('names counts under the split, so that training keeps its own', () => {
    const names = [...splitTotals(randomGroups(2, 1), 'val').keys()]
    expect(names.filter((name) => name.startsWith('data/'))).toEqual([])
    expect(names).toContain('val/data/step_num_scenarios')
  })

  it('averages the largest numbers right, within a call and over calls', () => {
    const trajectories = [1.7e308, 1.7e308, 1.7e308].map((huge) => ({ metrics: { huge } }))
    const once = splitTotals(parseTrajectoryGroups([{ trajectories, metrics: { far: -1.7e308 } }]), 'val')
    const other = splitTotals(parseTrajectoryGroups([{ trajectories, metrics: { far: 1.7e308 } }]), 'val')
    const { 'val/huge': huge, 'val/group_far': far } = toMetrics(poolTotals(once, other))
    expect(huge).toBeCloseTo(1.7e308, -300)
    expect(far).toBe(0)
  })
})
