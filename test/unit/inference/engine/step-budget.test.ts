/**
 * How long prompts may hold up running answers.
 */
import { describe, expect, test } from 'vitest'
import { sharingMs } from '#inference/engine/step-budget.js'

describe('time of prompts beside running choices', () => {
  test.each([1, 17, 100, 400])('is short for one prompt, whatever a round takes (%d ms)', (roundMs) => {
    expect(sharingMs({ prompts: 1, roundMs })).toBe(60)
  })

  test('grows with the prompts that wait', () => {
    const at = (prompts: number): number => sharingMs({ prompts, roundMs: 100 })
    expect([2, 3, 6].map(at)).toEqual([120, 180, 360])
  })

  test.each([0, 5, 17, 30, 60, 90, 300])('keeps gaps to 150 ms or five times a round of %d ms', (roundMs) => {
    const gap = sharingMs({ prompts: 32, roundMs }) + roundMs
    expect(gap).toBe(Math.max(150, 5 * roundMs))
  })
})
