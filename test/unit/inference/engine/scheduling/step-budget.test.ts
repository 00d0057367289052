/**
 * How long prompts may hold up running answers.
 */
import { describe, expect, test } from 'vitest'
import { measuredMs, sharingMs } from '#inference/engine/scheduling/step-budget.js'

describe('time of prompts beside running choices', () => {
  test.each([1, 17, 100, 400])('is short for one prompt, whatever a round takes (%d ms)', (roundMs) => {
    expect(sharingMs({ prompts: 1, roundMs, isTogether: false })).toBe(60)
  })

  test('grows with the prompts that wait', () => {
    const at = (prompts: number): number => sharingMs({ prompts, roundMs: 100, isTogether: false })
    expect([2, 3, 6].map(at)).toEqual([120, 180, 200])
  })

  test.each([0, 5, 17, 30, 60])('keeps gaps to 150 ms or five times a round of %d ms', (roundMs) => {
    const gap = sharingMs({ prompts: 32, roundMs, isTogether: false }) + roundMs
    expect(gap).toBe(Math.max(150, 5 * roundMs))
  })

  test.each([60, 90, 200, 240])('and never lets them be longer than 300 ms for a round of %d ms', (roundMs) => {
    expect(sharingMs({ prompts: 32, roundMs, isTogether: false }) + roundMs).toBe(300)
  })

  test('is there for prompts also where a round alone takes longer', () => {
    expect(sharingMs({ prompts: 32, roundMs: 500, isTogether: false })).toBe(60)
  })

  test('is long for those that came together with the choices that run', () => {
    const at = (prompts: number): number => sharingMs({ prompts, roundMs: 80, isTogether: true })
    expect([2, 8, 32].map(at)).toEqual([240, 960, 1000])
  })

  test.each([2, 21, 80, 400])(
    'and is as short for one that came with them as for one that came later (%d ms)',
    (roundMs) => {
      expect(sharingMs({ prompts: 1, roundMs, isTogether: true })).toBe(60)
    },
  )
})

describe('time of a prompt token', () => {
  test('is what steps of a prompt took lately, a little behind where it grows', () => {
    let known = 0.5
    const expected: number[] = []
    for (const ms of [60, 70, 80, 90, 100]) {
      known = measuredMs(known, { tokens: 100, ms, trust: 0.7 })
      expected.push(known)
    }
    expect(expected[0]).toBeCloseTo(0.57)
    expect(expected.at(-1)).toBeGreaterThan(0.94)
    expect(expected.at(-1)).toBeLessThan(1)
  })

  test('hardly changes by a step of a few tokens', () => {
    expect(measuredMs(1, { tokens: 2, ms: 14, trust: 0.7 })).toBeCloseTo(1 + (0.7 * 2 * 6) / 64)
  })
})
