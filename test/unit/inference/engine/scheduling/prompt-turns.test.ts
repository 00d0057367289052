/**
 * When prompts are computed while choices run, by a clock that only the steps move.
 */
import { describe, expect, test } from 'vitest'
import { PromptTurns } from '#inference/engine/scheduling/prompt-turns.js'
import { measuredMs } from '#inference/engine/scheduling/step-budget.js'

const MS_PER_TOKEN = 1.5

/** Prompts of 128 tokens that wait beside running choices. */
function engineWith(options: {
  readonly waiting: number
  readonly waitingSince: number
  readonly runningSince: number
}) {
  let left = Array.from({ length: options.waiting }, () => 128)
  const roundMs = 40
  let nowMs = 10_000
  const turns = new PromptTurns({
    prompts: {
      get length() {
        return left.length
      },
      get requests() {
        return left.map(() => ({ admittedMs: options.waitingSince }))
      },
      tokensIn: (ms) => Math.round(ms / MS_PER_TOKEN),
      wholeTokens: (budget) => budget,
      msOf: (tokens) => tokens * MS_PER_TOKEN,
    },
    choices: {
      count: 16,
      batchCount: 1,
      roundMs,
      running: new Map([[{ admittedMs: options.runningSince }, 1]]),
    },
    mostPrefillTokens: 176,
    fixed: null,
  })
  /** Takes turns until no prompt is left. @returns the longest time between two steps of the running choices, and how many steps of each */
  return () => {
    let gapMs = 0
    let lastMs = nowMs
    let steps = 0
    let chunks = 0
    while (left.length > 0) {
      const budget = turns.next(nowMs)
      if (budget === 0) {
        turns.decoded()
        nowMs += roundMs
        gapMs = Math.max(gapMs, nowMs - lastMs)
        lastMs = nowMs
        steps++
        continue
      }
      const [first = 0, ...others] = left
      const tokens = Math.min(first, budget)
      chunks++
      nowMs += tokens * MS_PER_TOKEN
      left = first === tokens ? others : [first - tokens, ...others]
    }
    return { gapMs, steps, chunks }
  }
}

describe('prompts beside running choices', () => {
  test('that came long before hold them up for 300 ms at most, and use that time', () => {
    const { gapMs, steps } = engineWith({ waiting: 32, waitingSince: 9000, runningSince: 0 })()
    expect(gapMs).toBeLessThanOrEqual(300)
    // 6,144 ms of prompts, 160 to 200 a window while many wait
    expect(steps).toBeGreaterThan(25)
    expect(steps).toBeLessThan(50)
  })

  test('that came with them are computed almost at a stretch, and not cut where a window ends', () => {
    const { gapMs, steps, chunks } = engineWith({ waiting: 32, waitingSince: 9000, runningSince: 9000 })()
    expect(gapMs).toBeLessThanOrEqual(1000 + 40 + 128 * MS_PER_TOKEN)
    expect(steps).toBeLessThanOrEqual(16)
    // the last one gets what one prompt gets, 60 ms beside a round of 40
    expect(chunks).toBe(35)
  })

  test('one prompt gets 60 ms between two tokens', () => {
    const { gapMs } = engineWith({ waiting: 1, waitingSince: 9000, runningSince: 0 })()
    expect(gapMs).toBeLessThanOrEqual(60 + 40)
  })

  test('also one that came with them gets little', () => {
    const { gapMs } = engineWith({ waiting: 1, waitingSince: 9000, runningSince: 9000 })()
    expect(gapMs).toBeLessThanOrEqual(60 + 40)
  })

  test('with nothing to compute choices are next', () => {
    const run = engineWith({ waiting: 0, waitingSince: 0, runningSince: 0 })
    expect(run()).toEqual({ gapMs: 0, steps: 0, chunks: 0 })
  })
})

/**
 * Gaps of streams beside one prompt of 2,000 tokens that came with them, in chunks of at most 128, whose tokens take 0.6 ms at its beginning
 * and 1.4 at its end, as measured of SmolLM2-135M on two cores; what the next ones take is guessed from the last chunk, as `PromptQueue` does.
 */
function gapsBesideLongPrompt(roundMs: number): readonly number[] {
  const total = 2000
  let position = 0
  let msPerToken = 0.6
  let nowMs = 10_000
  const turns = new PromptTurns({
    prompts: {
      get length() {
        return position < total ? 1 : 0
      },
      requests: [{ admittedMs: 9000 }],
      tokensIn: (ms) => Math.round(ms / msPerToken),
      wholeTokens: (budget) => budget,
      msOf: (tokens) => tokens * msPerToken,
    },
    choices: { count: 4, batchCount: 1, roundMs, running: new Map([[{ admittedMs: 8500 }, 1]]) },
    mostPrefillTokens: 128,
    fixed: null,
  })
  const gaps: number[] = []
  let lastMs = nowMs
  while (position < total) {
    const budget = turns.next(nowMs)
    if (budget > 0) {
      const tokens = Math.min(budget, 128, total - position)
      const ms = tokens * (0.6 + (0.8 * (position + tokens / 2)) / total)
      msPerToken = measuredMs(msPerToken, { tokens, ms, trust: 0.7 })
      nowMs += ms
      position += tokens
    } else {
      turns.decoded()
      nowMs += roundMs
      gaps.push(nowMs - lastMs)
      lastMs = nowMs
    }
  }
  return gaps
}

describe('a prompt of 2,000 tokens that came with the streams beside it', () => {
  test.each([2, 11, 20, 30])('leaves them a token every 100 ms where a round takes %d ms', (roundMs) => {
    const gaps = gapsBesideLongPrompt(roundMs)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(100)
    // and is not cut smaller than that needs
    expect(gaps.length).toBeLessThan(40)
  })
})
