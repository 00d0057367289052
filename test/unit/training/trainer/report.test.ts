/** What a job's course gives reason to say. */
import { describe, expect, it } from 'vitest'
import { createReport, noteStep, reportWarnings } from '#training/trainer/report.js'

const seconds = { gradient: 0.5, optimizer: 0.25 }
function afterSteps(steps: readonly { readonly norm: number; readonly kl?: number }[]) {
  const report = createReport()
  for (const { norm, kl } of steps) {
    noteStep(report, { tokens: 10, trainedTokens: 4, gradientNorm: norm, maxGradientNorm: 1, kl, seconds })
  }
  return report
}
const warningsOf = (steps: Parameters<typeof afterSteps>[0]) => reportWarnings(afterSteps(steps), steps.length)

describe('report', () => {
  it('adds up tokens and times', () => {
    expect(afterSteps([{ norm: 2 }, { norm: 0.5 }])).toMatchObject({
      tokens: 20,
      trainedTokens: 8,
      clippedSteps: 1,
      seconds: { gradient: 1, optimizer: 0.5 },
    })
  })

  it('says when every gradient was far too long, not when some were, and not for few steps', () => {
    expect(warningsOf([6, 8, 9, 7].map((norm) => ({ norm })))).toEqual([
      expect.stringContaining('gradient clipped in every one of 4 steps (its norm never below 6)'),
    ])
    expect(warningsOf([6, 8, 9, 0.5].map((norm) => ({ norm })))).toEqual([])
    // as in runs that learn: what the limit of RL is for
    expect(warningsOf([2.2, 12, 17, 2.9, 5.1].map((norm) => ({ norm })))).toEqual([])
    expect(warningsOf([{ norm: 2 }])).toEqual([])
  })

  it('says when KL rises far, not when a job moves as those that learn', () => {
    const rising = Array.from({ length: 8 }, (_, i) => ({ norm: 0.1, kl: 0.1 * (i + 1) }))
    expect(warningsOf(rising)).toEqual([expect.stringContaining('KL rising')])
    expect(warningsOf(rising.map(({ norm, kl }) => ({ norm, kl: kl / 2 })))).toEqual([])
    expect(warningsOf(rising.map(({ norm }) => ({ norm, kl: 0.6 })))).toEqual([])
  })

  it('says when most updates were shortened, not when some were', () => {
    const report = createReport()
    report.facts['trust_region'] = { target_kl: 0.05, updates: 6, shortened: 3, smallest_scale: 0.125 }
    expect(reportWarnings(report, 6)).toEqual([expect.stringContaining('3 of 6 updates were shortened')])
    report.facts['trust_region'] = { target_kl: 0.05, updates: 6, shortened: 2, smallest_scale: 0.125 }
    expect(reportWarnings(report, 6)).toEqual([])
  })

  it('says when validation never got better', () => {
    const report = createReport()
    report.validation.push({ step: 0, loss: 2 }, { step: 5, loss: 2.5 })
    expect(reportWarnings(report, 5)).toEqual([expect.stringContaining('validation loss never fell below 2.000')])
    report.validation.push({ step: 10, loss: 1.5 })
    expect(reportWarnings(report, 10)).toEqual([])
  })
})
