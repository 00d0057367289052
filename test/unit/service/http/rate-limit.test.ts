/** Requests a minute: a bucket per key that fills evenly. */
import { describe, expect, test } from 'vitest'
import { createRateLimiter } from '#service/http/middleware/rate-limit.js'

function fakeClock() {
  let nowMs = 1000
  return {
    monotonicMs: () => nowMs,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

describe('the allowance of a key', () => {
  test('is divided by the servers that live, one request for each at least', () => {
    const clock = fakeClock()
    let servers = 2
    const limiter = createRateLimiter(4, clock, () => servers)
    expect([1, 2, 3].map(() => limiter.take('a').isAllowed)).toEqual([true, true, false])
    clock.pass(30_000)
    // what is left is told in requests that are still taken
    expect([1, 2].map(() => limiter.take('a'))).toMatchObject([
      { isAllowed: true, remaining: 0 },
      { isAllowed: false, remaining: 0 },
    ])
    expect(limiter.take('b')).toMatchObject({ isAllowed: true, remaining: 1 })
    servers = 9
    clock.pass(60_000)
    expect([1, 2].map(() => limiter.take('a').isAllowed)).toEqual([true, false])
  })

  test('is spent in a burst, then comes back evenly', () => {
    const clock = fakeClock()
    const limiter = createRateLimiter(60, clock)
    for (let left = 59; left >= 0; left -= 1) {
      expect(limiter.take('a')).toMatchObject({ isAllowed: true, remaining: left })
    }
    expect(limiter.take('a')).toEqual({ isAllowed: false, remaining: 0, retryMs: 1000, fullMs: 60_000 })
    clock.pass(400)
    expect(limiter.take('a')).toMatchObject({ isAllowed: false, retryMs: 600 })
    clock.pass(600)
    expect(limiter.take('a').isAllowed).toBe(true)
    expect(limiter.take('a').isAllowed).toBe(false)
    clock.pass(3_600_000)
    expect(limiter.take('a')).toMatchObject({ isAllowed: true, remaining: 59, fullMs: 1000 })
  })

  test('is its own', () => {
    const limiter = createRateLimiter(1, fakeClock())
    expect(limiter.take('a').isAllowed).toBe(true)
    expect(limiter.take('a').isAllowed).toBe(false)
    expect(limiter.take('b').isAllowed).toBe(true)
  })

  test('is kept for a key that used it, however many others there are', () => {
    const clock = fakeClock()
    const limiter = createRateLimiter(2, clock)
    limiter.take('a')
    limiter.take('a')
    for (let i = 0; i < 5000; i += 1) limiter.take(`other ${i}`)
    expect(limiter.take('a').isAllowed).toBe(false)
  })
})
