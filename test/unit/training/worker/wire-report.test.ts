/**
 * A job's report as it is stored: what it predicts of its end, parts of time, measurements.
 */
import { describe, expect, it } from 'vitest'
import type { Clock } from '#base/util/clock.js'
import { createProgress } from '#training/trainer/progress.js'
import { createPaceMeter } from '#training/worker/run-job.js'
import { toWireReport } from '#training/worker/wire-report.js'

describe('the predicted end', () => {
  it('is unknown before the first step, then the rest at the pace of the steps after the first', () => {
    let nowMs = 0
    const clock = { monotonicMs: () => nowMs } as Clock
    const meter = createPaceMeter(clock)
    const progress = createProgress()
    progress.report.plannedSteps = 10
    const remaining = () => toWireReport(progress, meter.read()).remaining_seconds
    const at = (ms: number, type: 'training_started' | 'gradient_step') => {
      nowMs = ms
      if (type === 'gradient_step') progress.stepCount += 1
      meter.note({ type, data: {} })
    }
    at(5_000, 'training_started')
    expect(remaining()).toBeNull()
    at(15_000, 'gradient_step')
    expect(remaining()).toBe(90)
    // the first step loaded weights: from the second on it does not count
    at(17_000, 'gradient_step')
    expect(remaining()).toBe(16)
    at(21_000, 'gradient_step')
    expect(remaining()).toBe(21)
    progress.stepCount = 10
    expect(remaining()).toBe(0)
  })

  it('counts the steps of this attempt for the pace, those of all attempts for the rest', () => {
    const progress = createProgress()
    progress.report.plannedSteps = 100
    progress.stepCount = 90
    expect(toWireReport(progress, { steps: 2, seconds: 6 }).remaining_seconds).toBe(30)
    progress.report.plannedSteps = null
    expect(toWireReport(progress, { steps: 2, seconds: 6 }).remaining_seconds).toBeNull()
  })
})

it('measurements of preferences stand beside their loss', () => {
  const progress = createProgress()
  progress.report.validation.push({ step: 0, loss: 0.7 }, { step: 4, loss: 0.5, metrics: { 'rewards/margins': 1.5 } })
  expect(toWireReport(progress, { steps: 0, seconds: 0 }).validation).toEqual([
    { gradient_step: 0, loss: 0.7 },
    { gradient_step: 4, loss: 0.5, 'rewards/margins': 1.5 },
  ])
})
