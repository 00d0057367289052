/**
 * When an attempt is given up: limits count ticks, so nothing here waits.
 */
import { describe, expect, it } from 'vitest'
import { watchAttempt } from '#service/queue/attempt-watch.js'

const LIMITS = { startMs: 600_000, silenceMs: 300_000, stallMs: 3_600_000 }
const TICK_MS = 1000
const watching = () => {
  const watch = watchAttempt(LIMITS, TICK_MS)
  return {
    ...watch,
    pass: (seconds: number) => {
      for (let i = 0; i < seconds; i += 1) watch.tick()
    },
  }
}

describe('an attempt', () => {
  it('may take its time to start, up to a limit that its reason names', () => {
    const watch = watching()
    watch.pass(600)
    expect(watch.verdict()).toBeNull()
    watch.pass(1)
    expect(watch.verdict()).toBe('its worker did not report within 10 minutes of its start')
  })

  it('must send something, heartbeats at least', () => {
    const watch = watching()
    watch.pass(500)
    watch.note('moved')
    watch.pass(300)
    expect(watch.verdict()).toBeNull()
    watch.pass(1)
    expect(watch.verdict()).toContain('silent for 5 minutes')
    watch.note(0)
    expect(watch.verdict()).toBeNull()
  })

  it('must get on: heartbeats whose counter stands still do not keep it', () => {
    const watch = watching()
    watch.note('moved')
    for (let i = 0; i < 60; i += 1) {
      watch.note(5)
      watch.pass(60)
    }
    expect(watch.verdict()).toBeNull()
    watch.note(5)
    watch.pass(60)
    expect(watch.verdict()).toBe('its worker answered but made no progress for 60 minutes')
    watch.note(6)
    expect(watch.verdict()).toBeNull()
    watch.note(null)
    watch.pass(200)
    expect(watch.verdict()).toBeNull()
  })
})
