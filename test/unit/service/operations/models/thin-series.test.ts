/**
 * Thinning of a series: few points, and no spike, end or gap is lost.
 */
import { describe, expect, it } from 'vitest'
import { thinSeries } from '#service/operations/models/thin-series.js'

const line = (length: number, valueAt: (i: number) => number | null) => ({
  axis: Array.from({ length }, (_, i) => i),
  values: Array.from({ length }, (_, i) => valueAt(i)),
})

describe('thinSeries', () => {
  it('keeps everything that fits, but no places without a value', () => {
    const { axis, values } = line(10, (i) => (i % 2 === 0 ? i : null))
    expect(thinSeries(axis, values, 5)).toEqual([0, 2, 4, 6, 8])
  })

  it('keeps ends and single spikes, upwards and downwards, and no more points than asked for', () => {
    const { axis, values } = line(10_000, (i) => (i === 4321 ? 1e9 : i === 8765 ? -1e9 : Math.sin(i / 50)))
    for (const most of [4, 8, 100, 500, 2000]) {
      const kept = thinSeries(axis, values, most)
      expect(kept.length).toBeLessThanOrEqual(most)
      for (const i of [0, 4321, 8765, 9999]) expect(kept, `${most}`).toContain(i)
      expect([...kept].sort((a, b) => a - b)).toEqual(kept)
    }
  })

  it('shows every bucket of the axis that has points, however they are crowded', () => {
    const axis = [...Array.from({ length: 5000 }, (_, i) => i / 5000), 500, 1000]
    const kept = thinSeries(axis, axis, 40)
    expect(kept).toContain(5000)
    expect(kept).toContain(5001)
  })

  it('goes by position where all points stand at one place', () => {
    const values = Array.from({ length: 1000 }, (_, i) => i % 7)
    const kept = thinSeries(
      values.map(() => 3),
      values,
      40,
    )
    expect(kept.length).toBeGreaterThan(20)
    expect(kept.length).toBeLessThanOrEqual(40)
  })

  it('of nothing is nothing', () => {
    expect(thinSeries([], [], 4)).toEqual([])
    expect(thinSeries([1, 2], [null, null], 4)).toEqual([])
  })
})
