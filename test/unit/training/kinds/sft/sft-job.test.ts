/**
 * Figures of how a supervised job fits its rows: windows of steps, held-out measurements, and a job that goes on from a resume
 * point.
 */
import { expect, test } from 'vitest'
import { closeFit, noteFit, stepsToCompare } from '#training/kinds/sft/sft-job.js'
import { createReport, factsOf, restoreReport } from '#training/trainer/report.js'

test('passes are compared, and quarters where there is one', () => {
  expect(stepsToCompare({ epochs: 3, steps: 10 })).toBe(10)
  expect(stepsToCompare({ epochs: 1, steps: 10 })).toBe(3)
  expect(stepsToCompare({ epochs: 1, steps: 0 })).toBe(1)
})

test('the last whole window stands beside the one before it, also after a resume', () => {
  const losses = [8, 6, 4, 2, 3, 1, 100]
  const whole = createReport()
  for (const loss of losses) noteFit(whole, loss, 2)
  const cut = createReport()
  for (const loss of losses.slice(0, 3)) noteFit(cut, loss, 2)
  const { seconds: _, ...stored } = structuredClone(cut)
  const resumed = createReport()
  restoreReport(resumed, stored)
  for (const loss of losses.slice(3)) noteFit(resumed, loss, 2)
  for (const report of [whole, resumed]) {
    closeFit(report, { answerTokens: 12, lostShare: 0 })
    expect(report.facts).toEqual({ fit: { answer_tokens: 12, trained: 2, trained_before: 3 } })
  }
})

test('the best measurement counts, and one that was not the last no longer fell', () => {
  const report = createReport()
  report.validation = [5, 3, 2].map((loss, step) => ({ step, loss }))
  closeFit(report, { answerTokens: 1, lostShare: 0 })
  expect(report.facts['fit']).toMatchObject({ held_out: 2, held_out_before: 3 })
  report.validation = [5, 2, 3].map((loss, step) => ({ step, loss }))
  closeFit(report, { answerTokens: 1, lostShare: 0 })
  expect(report.facts['fit']).toMatchObject({ held_out: 2, held_out_before: 2 })
})

test('shows nobody the sums of a job that runs', () => {
  const report = createReport()
  noteFit(report, 1, 4)
  expect(Object.keys(report.facts)).toHaveLength(1)
  expect(factsOf(report, 1)).toEqual({})
})
