/**
 * Many clients at once: the queue's limit, and clients that leave at every moment.
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

const CHAT = '/v1/chat/completions'
let service: TestService | null = null
let lines: Record<string, unknown>[] = []

async function start(options: TestServiceOptions): Promise<TestService> {
  lines = []
  const logger = createLogger({ level: 'info', destination: { write: (line) => void lines.push(JSON.parse(line)) } })
  service = await createTestService({ logger, ...options })
  return service
}

afterEach(async () => {
  await service?.dispose()
  service = null
})

function body(content: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { messages: [{ role: 'user', content }], max_tokens: 4, ignore_eos: true, ...more }
}

/** Lines of the log above info. */
function loud(): readonly Record<string, unknown>[] {
  return lines.filter(({ level }) => Number(level) > 30)
}

describe('the queue', () => {
  it('refuses exactly what exceeds --max-pending-requests, and takes the next when one leaves', async () => {
    const at = await start({ maxPendingRequests: 20 })
    const { fetch } = at
    await fetch(CHAT, { json: body('hello') })
    const leaving = new AbortController()
    const held = Array.from({ length: 19 }, () => fetch(CHAT, { json: body('WAIT'), signal: leaving.signal }))
    const first = new AbortController()
    const one = fetch(CHAT, { json: body('WAIT'), signal: first.signal }).catch(() => null)
    await at.untilEngineHas({ waiting: 20 })
    const late = await Promise.all(
      Array.from({ length: 30 }, async () => (await fetch(CHAT, { json: body('hello') })).status),
    )
    expect(late).toEqual(Array.from({ length: 30 }, () => 429))
    first.abort()
    await one
    await until(async () => (await fetch(CHAT, { json: body('hello') })).status === 200, 'room for one')
    leaving.abort()
    await Promise.allSettled(held)
  })

  it('has the same limit while the model is being loaded', async () => {
    const { fetch } = await start({ maxPendingRequests: 5, scripted: false })
    const answers = await Promise.all(Array.from({ length: 12 }, () => fetch(CHAT, { json: body('hello') })))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([...Array(5).fill(200), ...Array(7).fill(429)])
    expect(answers.find(({ status }) => status === 429)?.headers.get('retry-after')).toBe('1')
  })

  it('refuses none of 340 requests at once by default', async () => {
    const { fetch } = await start({ scripted: false })
    const answers = await Promise.all(Array.from({ length: 340 }, (_, i) => fetch(CHAT, { json: body(`hello ${i}`) })))
    expect(answers.filter(({ status }) => status !== 200)).toEqual([])
  })
})

describe('clients that leave', () => {
  it('leave no slot and no line above info, 1,000 of them at every moment of their requests', async () => {
    const { fetch, url, apiKey } = await start({ scripted: false, maxPendingRequests: 64, maxConcurrentSequences: 4 })
    expect((await fetch(CHAT, { json: body('hello') })).status).toBe(200)
    const { port } = new URL(url)
    const text = JSON.stringify(body('a word or two', { max_tokens: 48, stream: true }))
    const head = `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n`
    const leave = async (i: number): Promise<void> => {
      const socket = connect(Number(port), '127.0.0.1')
      socket.on('error', () => undefined)
      await new Promise((resolve) => socket.once('connect', resolve))
      const seen = (part: string): Promise<void> =>
        new Promise((resolve) => {
          let received = ''
          socket.on('data', (data) => {
            received += data.toString()
            if (received.includes(part)) resolve()
          })
          socket.once('close', () => resolve())
        })
      if (i % 4 === 0) socket.write(head.slice(0, 60))
      else if (i % 4 === 1) socket.write(head + text.slice(0, 20))
      else socket.write(head + text)
      // Before the headers and in the body; queued; in mid-stream, where the queue is long enough to have refused some.
      if (i % 4 < 2) await sleep(1)
      else if (i % 4 === 2) await sleep(i % 7)
      else await seen('data: ')
      socket.destroy()
    }
    let next = 0
    await Promise.all(
      Array.from({ length: 40 }, async () => {
        while (next < 1000) await leave(next++)
      }),
    )
    // Every slot is free again: as many as the limit are taken at once.
    await until(async () => {
      const answers = await Promise.all(Array.from({ length: 64 }, () => fetch(CHAT, { json: body('hello') })))
      return answers.every(({ status }) => status === 200)
    }, 'every slot free')
    expect(loud()).toEqual([])
    expect(lines.filter(({ status }) => Number(status) >= 500)).toEqual([])
  })

  it('say so with 499 and nothing louder when they leave before their request started', async () => {
    const at = await start({})
    const { fetch } = at
    await fetch(CHAT, { json: body('hello') })
    const gone = new AbortController()
    const waiting = fetch(CHAT, { json: body('WAIT', { stream: true }), signal: gone.signal }).catch(() => null)
    await at.untilEngineHas({ waiting: 1 })
    gone.abort()
    await waiting
    await until(() => lines.some(({ status }) => status === 499), 'a line of 499')
    expect(loud()).toEqual([])
  })
})
