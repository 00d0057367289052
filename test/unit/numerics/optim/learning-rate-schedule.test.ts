/**
 * The learning-rate schedule against its formula, and against the recurrences of PyTorch's schedulers.
 */
import { describe, expect, test } from 'vitest'
import { warmupCosine } from '#numerics/optim/learning-rate-schedule.js'

const OPTIONS = { peak: 4e-3, floor: 0.05, warmupSteps: 10, totalSteps: 111 }

describe('warmupCosine', () => {
  test('rises in equal parts to the peak, as LinearLR does', () => {
    const rates = Array.from({ length: 10 }, (_, step) => warmupCosine(step, OPTIONS))
    rates.forEach((rate, step) => {
      expect(rate).toBeCloseTo(((step + 1) / 10) * 4e-3, 12)
    })
    expect(rates.at(-1)).toBe(4e-3)
  })

  test.each([
    [10, 4e-3],
    [35, 4e-3 * (0.05 + 0.95 * Math.cos(Math.PI / 8) ** 2)],
    [60, 4e-3 * (0.05 + 0.95 / 2)],
    [85, 4e-3 * (0.05 + 0.95 * Math.sin(Math.PI / 8) ** 2)],
    [110, 4e-3 * 0.05],
  ])('step %d has %d', (step, rate) => {
    expect(warmupCosine(step, OPTIONS)).toBeCloseTo(rate, 12)
  })

  test('falls by the recurrence of CosineAnnealingLR', () => {
    const floor = OPTIONS.peak * OPTIONS.floor
    let rate = OPTIONS.peak
    for (let t = 1; t < 100; t++) {
      rate = floor + ((rate - floor) * (1 + Math.cos((Math.PI * t) / 100))) / (1 + Math.cos((Math.PI * (t - 1)) / 100))
      expect(warmupCosine(10 + t, OPTIONS)).toBeCloseTo(rate, 12)
    }
  })

  test('holds the peak until the decay begins, and does not know the end before', () => {
    const rates = (totalSteps: number): number[] =>
      Array.from({ length: totalSteps }, (_, step) => warmupCosine(step, { ...OPTIONS, totalSteps, decaySteps: 21 }))
    const short = rates(60)
    expect(short.slice(9, 40)).toEqual(Array(31).fill(4e-3))
    expect(short[49]).toBeCloseTo((4e-3 * (1 + 0.05)) / 2, 12)
    expect(short[59]).toBeCloseTo(4e-3 * 0.05, 12)
    expect(rates(90).slice(0, 40)).toEqual(short.slice(0, 40))
    expect(rates(90).slice(69)).toEqual(short.slice(39))
  })

  test('a decay longer than what follows the warm-up begins with it', () => {
    for (let step = 0; step < 111; step++) {
      expect(warmupCosine(step, { ...OPTIONS, decaySteps: 5000 })).toBe(warmupCosine(step, OPTIONS))
    }
  })

  test.each([
    OPTIONS,
    { ...OPTIONS, decaySteps: 1 },
    { peak: 1, warmupSteps: 0, totalSteps: 7 },
    { peak: 1, warmupSteps: 0, totalSteps: 1 },
    { peak: 1, warmupSteps: 3, totalSteps: 4 },
    { peak: 1, warmupSteps: 3, totalSteps: 3 },
    { peak: 1, warmupSteps: 8, totalSteps: 4 },
  ])('steps behind the last keep its rate: %j', (options) => {
    const last = warmupCosine(options.totalSteps - 1, options)
    for (const behind of [0, 1, 2, 1000]) expect(warmupCosine(options.totalSteps + behind, options)).toBe(last)
  })

  test('without a warm-up the first step has the peak, the last one the floor, by default 0', () => {
    const options = { peak: 2, warmupSteps: 0, totalSteps: 5 }
    expect(warmupCosine(0, options)).toBe(2)
    expect(warmupCosine(2, options)).toBeCloseTo(1, 12)
    expect(warmupCosine(4, options)).toBeCloseTo(0, 12)
  })

  test('a single step has the peak', () => {
    expect(warmupCosine(0, { peak: 2, warmupSteps: 0, totalSteps: 1 })).toBe(2)
    expect(warmupCosine(0, { peak: 2, warmupSteps: 1, totalSteps: 1 })).toBe(2)
  })
})
