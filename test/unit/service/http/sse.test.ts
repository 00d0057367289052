/**
 * Server-sent events: framing, injection, pace, and what happens when the reader leaves.
 */
import { describe, expect, it } from 'vitest'
import { formatEvent, toEventStream } from '#service/http/sse.js'

const decoder = new TextDecoder()

describe('framing', () => {
  it('writes one field a line and splits data at line breaks', () => {
    expect(formatEvent({ id: '1', event: 'x', data: 'a\nb\r\nc' })).toBe(
      'id: 1\nevent: x\ndata: a\ndata: b\ndata: c\n\n',
    )
  })

  it('refuses fields that would forge others', () => {
    for (const bad of ['a\nb', 'a\rb', 'a\0b']) {
      expect(() => formatEvent({ id: bad, data: '' })).toThrow(/one line/)
      expect(() => formatEvent({ event: bad, data: '' })).toThrow(/one line/)
    }
  })
})

describe('streams', () => {
  it('pull no further than the reader reads', async () => {
    let made = 0
    async function* events() {
      for (;;) {
        made += 1
        yield { data: String(made) }
      }
    }
    const reader = toEventStream(events()).getReader()
    await reader.read()
    await new Promise((resolve) => setImmediate(resolve))
    expect(made).toBeLessThanOrEqual(3)
    await reader.cancel()
  })

  it('tell the source when the reader leaves, even while it waits', async () => {
    let isCancelled = false
    let isReturned = false
    const stop = new AbortController()
    async function* events() {
      try {
        yield { data: '1' }
        await new Promise<void>((settle) => stop.signal.addEventListener('abort', () => settle()))
      } finally {
        isReturned = true
      }
    }
    const reader = toEventStream(events(), {
      onCancel: () => {
        isCancelled = true
        stop.abort()
      },
    }).getReader()
    expect(decoder.decode((await reader.read()).value)).toBe('data: 1\n\n')
    await reader.cancel()
    expect([isCancelled, isReturned]).toEqual([true, true])
  })

  it('fill silence with comments and lose nothing', async () => {
    let release = (): void => undefined
    const waiting = new Promise<void>((resolve) => {
      release = resolve
    })
    async function* events() {
      await waiting
      yield { data: 'late' }
    }
    const reader = toEventStream(events(), { pingMs: 5 }).getReader()
    expect(decoder.decode((await reader.read()).value)).toBe(': ping\n\n')
    release()
    let text = ''
    while (!text.includes('late')) text = decoder.decode((await reader.read()).value)
    expect(text).toBe('data: late\n\n')
    expect((await reader.read()).done).toBe(true)
  })
})
