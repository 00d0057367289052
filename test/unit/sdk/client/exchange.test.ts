/** Interruption and silence end a request at once, before its answer and in its middle, also after a garbage collection. */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createClient } from '../../../../src/sdk/client/client.js'
import { RequestTimeoutError } from '../../../../src/sdk/client/errors.js'
import { startExchange } from '../../../../src/sdk/client/exchange.js'
import { collectGarbage } from '../../../support/process-cost.js'
import { until } from '../../../support/until.js'

let server: Server
let baseUrl = ''
const open: ServerResponse[] = []
/** Told of each connection that the client gave up. */
let onGone: () => void = () => undefined
beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/v1/health') return
    open.push(response)
    response.on('close', () => onGone())
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(event(0))
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** An event of a job, and a piece of a chat with nothing in it. */
const event = (i: number) =>
  `data: ${JSON.stringify({ id: String(i), type: 'gradient_step', data: {}, created_at: '', choices: [] })}\n\n`
/** Several turns of the event loop, garbage collected in each. */
async function collectOften(): Promise<void> {
  for (let i = 0; i < 20; i += 1) {
    collectGarbage()
    await new Promise((done) => setTimeout(done, 2))
  }
}

describe('after a garbage collection', () => {
  test('an interruption ends a stream while rows flow, and the connection is closed', async () => {
    const client = createClient({ baseUrl, apiKey: null })
    const interruption = new AbortController()
    const reason = new Error('Ctrl-C')
    const gone = new Promise<void>((done) => {
      onGone = done
    })
    const seen: string[] = []
    const rows = (async () => {
      for await (const row of client.trainingJobs.follow('job', { signal: interruption.signal })) seen.push(row.id)
    })()
    const outcome = expect(rows).rejects.toBe(reason)
    while (seen.length === 0) await new Promise((done) => setTimeout(done, 2))
    await collectOften()
    const writer = setInterval(() => open.at(-1)?.write(event(1)), 1)
    await collectOften()
    expect(seen.length).toBeGreaterThan(1)
    interruption.abort(reason)
    await outcome
    const count = seen.length
    await gone
    clearInterval(writer)
    expect(seen.length, 'no row after the interruption').toBe(count)
  })
  test('an interruption ends the wait for an answer', async () => {
    const interruption = new AbortController()
    const answer = createClient({ baseUrl, apiKey: null }).health({ signal: interruption.signal })
    const outcome = expect(answer).rejects.toThrow('Ctrl-C')
    await collectOften()
    interruption.abort(new Error('Ctrl-C'))
    await outcome
  })
  test('silence longer than the limit ends an answer that has begun', async () => {
    const client = createClient({ baseUrl, apiKey: null, longTimeoutMs: 3000, maxRetries: 0 })
    // a machine that stands still for that long may end one before it begins: not every time
    const stream = await until(async () => {
      const begun = client.chat.stream({ messages: [] })
      const isThere = await begun.next().then(
        () => true,
        () => false,
      )
      return isThere && begun
    }, 'an answer that begins')
    const next = stream.next()
    const outcome = expect(next).rejects.toBeInstanceOf(RequestTimeoutError)
    await collectOften()
    await outcome
  })
})

test('each piece that arrives starts the limit anew', async () => {
  vi.useFakeTimers()
  try {
    let send: ReadableStreamDefaultController<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        send = controller
      },
    })
    const exchange = startExchange(undefined, 1000)
    const reader = exchange.guard(new Response(body), () => new Error('silent')).body?.getReader()
    for (let i = 0; i < 5; i += 1) {
      const piece = reader?.read()
      await vi.advanceTimersByTimeAsync(900)
      send?.enqueue(Uint8Array.of(i))
      expect((await piece)?.value).toEqual(Uint8Array.of(i))
    }
    const last = reader?.read()
    const outcome = expect(last).rejects.toThrow('silent')
    await vi.advanceTimersByTimeAsync(1000)
    await outcome
    expect(exchange.endCause()).toBe('timed_out')
  } finally {
    vi.useRealTimers()
  }
})
