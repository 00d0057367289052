/**
 * How long a worker keeps trying: a full disk is waited for, and named when the patience ends; rows may take as long as the job.
 */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished, vi } from 'vitest'
import { createWorkerClient, type WorkerClient } from '#training/worker/worker-client.js'

interface Connection {
  readonly client: WorkerClient
  readonly waitedMs: () => number
}

/** A server that refuses the first `refusals` requests, and a client whose pauses take no time. */
async function connect(refusals: number, code: string): Promise<Connection> {
  let left = refusals
  return serve((_, response) => {
    left -= 1
    const body = left >= 0 ? { detail: code, error: { message: code, code } } : {}
    response.writeHead(left >= 0 ? 503 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
}

/** A server that calls `answer` once a request has been read, and a client whose pauses take no time. */
async function serve(answer: RequestListener): Promise<Connection> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => answer(request, response))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  let waited = 0
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createWorkerClient(
    { url, token: 't', jobId: 'j', attempt: 1 },
    {
      pause: async (timeMs) => {
        waited += timeMs
      },
    },
  )
  return { client, waitedMs: () => waited }
}

/** Time passes only when the test says so, for signals too, which the platform's own timers would end. */
function holdTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((timeMs) => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(new DOMException('timed out', 'TimeoutError')), timeMs)
    return controller.signal
  })
  onTestFinished(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })
}

it.each(['disk_full', 'database_locked', 'database_unavailable', 'database_busy'])(
  'waits minutes while the server cannot store anything: %s',
  async (code) => {
    const { client, waitedMs } = await connect(100, code)
    await client.complete({ files: {}, metrics: {} })
    expect(waitedMs()).toBe(500_000)
  },
)

it.each([
  ['disk_full', "the server's disk was full for 10 minutes"],
  ['database_locked', "another program held the server's database for 10 minutes"],
])('names what it waited for when it gives up: %s', async (code, message) => {
  const { client, waitedMs } = await connect(1000, code)
  await expect(client.postEvents({ offset: 0, events: [] })).rejects.toMatchObject({
    code,
    message: expect.stringContaining(message),
  })
  expect(waitedMs()).toBe(600_000)
})

it('gives up a server that is not there after a minute', async () => {
  const { client, waitedMs } = await connect(1000, 'overloaded')
  await expect(client.fail({ code: 'x', message: 'x', is_cancelled: false })).rejects.toMatchObject({
    code: 'server_unreachable',
  })
  expect(waitedMs()).toBeGreaterThanOrEqual(60_000)
  expect(waitedMs()).toBeLessThan(65_000)
})

it('reads rows for as long as the training takes', async () => {
  holdTimers()
  let sendRest = (): void => {}
  const { client } = await serve((_, response) => {
    response.writeHead(200).write('first\n')
    sendRest = () => void response.end('second\n')
  })
  const rows = client.openInput()[Symbol.asyncIterator]()
  const read = async (): Promise<string> => Buffer.from((await rows.next()).value ?? []).toString()
  expect(await read()).toBe('first\n')
  await vi.advanceTimersByTimeAsync(5 * 3600 * 1000)
  sendRest()
  expect(await read()).toBe('second\n')
})

it('asks again when no answer comes', async () => {
  holdTimers()
  let requestCount = 0
  const { client } = await serve((_, response) => {
    requestCount += 1
    if (requestCount === 1) void vi.advanceTimersByTimeAsync(120_000)
    else response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  await client.postEvents({ offset: 0, events: [] })
  expect(requestCount).toBe(2)
})
