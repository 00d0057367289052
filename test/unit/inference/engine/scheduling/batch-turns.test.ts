/**
 * Whose turn it is among lanes of running choices.
 */
import { describe, expect, test } from 'vitest'
import { BatchTurns, kindOf } from '#inference/engine/scheduling/batch-turns.js'

interface Lane {
  readonly name: string
  readonly rows: number
  readonly requests: number
  /** What its step takes. */
  readonly stepMs: number
}

/** Steps of lanes by a clock that only they move: how often each was next, and the longest time between two of its steps. */
function run(lanes: readonly Lane[], steps: number) {
  const turns = new BatchTurns()
  let nowMs = 1000
  const states = lanes.map((lane) => ({ ...lane, lastMs: 0, lastTurnMs: nowMs, turns: 0, longestWaitMs: 0 }))
  for (let i = 0; i < steps; i++) {
    const next = turns.next(states, nowMs)
    next.longestWaitMs = Math.max(next.longestWaitMs, nowMs - next.lastTurnMs)
    const kind = kindOf(next)
    const sharing = states.filter((other) => kindOf(other) === kind)
    nowMs += next.stepMs
    next.lastMs = next.stepMs
    next.lastTurnMs = nowMs
    next.turns++
    turns.charge(
      kind,
      next.stepMs,
      sharing.reduce((sum, { requests }) => sum + requests, 0),
    )
  }
  return Object.fromEntries(states.map((state) => [state.name, state]))
}

describe('lanes', () => {
  test('whose requests have one choice each step in turn, however many stand in each', () => {
    const { alone, many } = run(
      [
        { name: 'many', rows: 62, requests: 62, stepMs: 24 },
        { name: 'alone', rows: 2, requests: 2, stepMs: 6 },
      ],
      100,
    )
    expect([many?.turns, alone?.turns]).toEqual([50, 50])
    expect(alone?.longestWaitMs).toBe(24)
  })

  test('share the time by requests where one has many choices', () => {
    const { wide, single } = run(
      [
        { name: 'wide', rows: 16, requests: 1, stepMs: 45 },
        { name: 'single', rows: 1, requests: 1, stepMs: 15 },
      ],
      400,
    )
    // the same time for both
    expect(Math.abs(100 - (wide?.turns ?? 0))).toBeLessThanOrEqual(1)
    expect(Math.abs(300 - (single?.turns ?? 0))).toBeLessThanOrEqual(1)
  })

  test('let the one with fewer choices go first where both have used the same', () => {
    const turns = new BatchTurns()
    const wide = { rows: 64, requests: 1, lastTurnMs: 0, lastMs: 200 }
    const single = { rows: 1, requests: 1, lastTurnMs: 10, lastMs: 0 }
    expect(turns.next([wide, single], 20)).toBe(single)
  })

  test('wait for three rounds at most', () => {
    const lanes = [
      { name: 'wide', rows: 64, requests: 1, stepMs: 200 },
      { name: 'singles', rows: 15, requests: 15, stepMs: 50 },
    ]
    const { wide, singles } = run(lanes, 2000)
    // one request of sixteen by its share: once in 60 steps of the others, which is three seconds
    expect(wide?.longestWaitMs).toBeGreaterThan(3 * 250)
    expect(wide?.longestWaitMs).toBeLessThanOrEqual(3 * 250 + 50)
    expect(singles?.longestWaitMs).toBe(200)
  })

  test('that come owe nothing and are owed nothing', () => {
    const turns = new BatchTurns()
    const old = { rows: 4, requests: 1, lastTurnMs: 0, lastMs: 20 }
    for (let i = 0; i < 10; i++) turns.charge(kindOf(old), 20, 1)
    turns.next([old], 0)
    const fresh = { rows: 1, requests: 1, lastTurnMs: 0, lastMs: 5 }
    const order = Array.from({ length: 4 }, () => {
      const lane = turns.next([old, fresh], 0)
      turns.charge(kindOf(lane), lane.lastMs, 1)
      return lane
    })
    expect(order).toEqual([fresh, old, fresh, fresh])
  })
})
