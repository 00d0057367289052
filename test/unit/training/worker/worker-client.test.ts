/**
 * How long a worker keeps trying: a full disk is waited for, and named when the patience ends.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createWorkerClient, type WorkerClient } from '#training/worker/worker-client.js'

/** A server that refuses the first `refusals` requests, and a client whose pauses take no time. */
async function connect(refusals: number, code: string): Promise<{ client: WorkerClient; waitedMs: () => number }> {
  let left = refusals
  const server = createServer((request, response) => {
    request.resume().once('end', () => {
      left -= 1
      const body = left >= 0 ? { detail: code, error: { message: code, code } } : {}
      response.writeHead(left >= 0 ? 503 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  let waited = 0
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createWorkerClient({ url, token: 't', jobId: 'j', attempt: 1 }, async (timeMs) => {
    waited += timeMs
  })
  return { client, waitedMs: () => waited }
}

it('waits minutes for room on the disk', async () => {
  const { client, waitedMs } = await connect(100, 'disk_full')
  await client.complete({ files: {}, metrics: {} })
  expect(waitedMs()).toBe(500_000)
})

it('names the full disk when it gives up', async () => {
  const { client, waitedMs } = await connect(1000, 'disk_full')
  await expect(client.postEvents({ offset: 0, events: [] })).rejects.toMatchObject({
    code: 'disk_full',
    message: expect.stringContaining('full for 10 minutes'),
  })
  expect(waitedMs()).toBe(600_000)
})

it('gives up a server that is not there much sooner', async () => {
  const { client, waitedMs } = await connect(1000, 'overloaded')
  await expect(client.fail({ code: 'x', message: 'x', is_cancelled: false })).rejects.toMatchObject({
    code: 'server_unreachable',
  })
  expect(waitedMs()).toBeLessThan(10_000)
})
