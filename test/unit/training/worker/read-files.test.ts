/**
 * Rows and files that break off, or are not what they should be, on their way to a worker: from the server, which gives them as they are read, and
 * from where it keeps them.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { FencedRequests } from '#training/worker/fenced-requests.js'
import { createKeptRows } from '#training/worker/kept-rows.js'
import { readRows } from '#training/worker/read-files.js'
import { createWorkerClient, type WorkerClient } from '#training/worker/worker-client.js'

const ROWS = Buffer.from(Array.from({ length: 5000 }, (_, i) => `{"row":${i}}\n`).join(''))
const SHA256 = createHash('sha256').update(ROWS).digest('hex')

async function listen(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const clientOf = (url: string): WorkerClient =>
  createWorkerClient({ url, token: 't', jobId: 'j', attempt: 1, readsDirect: true }, { pause: async () => undefined })

/** The first bytes, and then the connection ends once they are sent. */
function cut(response: ServerResponse, bytes: number): void {
  response.writeHead(200, { 'x-content-sha256': SHA256 }).write(ROWS.subarray(0, bytes), () => response.destroy())
}

const read = (client: WorkerClient): Promise<Buffer> => buffer(client.openInput())

it('rows of a server that breaks off go on where they were, as often as there is something new', async () => {
  const lengths = [100, 20_000, 20_001, 60_000]
  let asked = 0
  const url = await listen((_, response) => {
    const length = lengths[asked++]
    if (length === undefined) response.writeHead(200, { 'x-content-sha256': SHA256 }).end(ROWS)
    else cut(response, length)
  })
  expect((await read(clientOf(url))).equals(ROWS)).toBe(true)
  expect(asked).toBe(5)
})

it('rows that break off at the same place again and again, or are others than their digest says, are a clear error', async () => {
  let asked = 0
  const url = await listen((_, response) => {
    asked += 1
    cut(response, 100)
  })
  const message = expect.stringMatching(/^GET \/input broke off 3 times: ./)
  await expect(read(clientOf(url))).rejects.toMatchObject({ code: 'file_unreadable', category: 'unavailable', message })
  expect(asked).toBe(3)
  const wrong = await listen((_, response) => void response.writeHead(200, { 'x-content-sha256': SHA256 }).end('row'))
  await expect(read(clientOf(wrong))).rejects.toMatchObject({
    code: 'file_unreadable',
    message: 'GET /input does not give the bytes of its digest',
  })
})

it.each([
  // one bit in the middle, and the last bytes missing
  ['damaged', Buffer.from(ROWS.map((byte, i) => (i === 30_000 ? byte ^ 1 : byte)))],
  ['cut', ROWS.subarray(0, 30_000)],
])(
  'rows that come %s from where the server keeps them are asked of the server before one is given',
  async (_, bytes) => {
    const store = await listen((_request, response) => {
      response.writeHead(200)
      if (bytes.length === ROWS.length) response.end(bytes)
      else response.write(bytes, () => response.destroy())
    })
    const asked: boolean[] = []
    const url = await listen((request, response) => {
      const isDirect = request.headers['x-trainyard-direct'] === '1'
      asked.push(isDirect)
      const head = { 'x-content-sha256': SHA256 }
      if (isDirect) response.writeHead(302, { ...head, location: store }).end()
      else response.writeHead(200, head).end(ROWS)
    })
    // what one worker process finds out it remembers: each of these is another one
    vi.resetModules()
    const { createWorkerClient: create } = await import('#training/worker/worker-client.js')
    const client = create({ url, token: 't', jobId: 'j', attempt: 1, readsDirect: true })
    const parts: Uint8Array[] = []
    for await (const part of client.openInput()) parts.push(part)
    expect(Buffer.concat(parts).equals(ROWS)).toBe(true)
    expect(asked).toEqual([true, false])
  },
)

it('rows from where the server keeps them are fetched once for all passes of a job, and leave no file', async () => {
  const [asked, fetched] = [[] as boolean[], [] as string[]]
  const store = await listen((request, response) => {
    fetched.push(request.url ?? '')
    response.writeHead(200).end(ROWS)
  })
  const url = await listen((request, response) => {
    const isDirect = request.headers['x-trainyard-direct'] === '1'
    asked.push(isDirect)
    const head = { 'x-content-sha256': SHA256 }
    if (isDirect) response.writeHead(302, { ...head, location: `${store}${request.url}` }).end()
    else response.writeHead(200, head).end(ROWS)
  })
  vi.resetModules()
  const { createWorkerClient: create } = await import('#training/worker/worker-client.js')
  const scratch = await mkdtemp(join(tmpdir(), 'trainyard-rows-'))
  onTestFinished(() => rm(scratch, { recursive: true, force: true }))
  vi.stubEnv('TMPDIR', scratch)
  onTestFinished(() => void vi.unstubAllEnvs())
  const client = create({ url, token: 't', jobId: 'j', attempt: 1, readsDirect: true })
  expect((await read(client)).equals(ROWS)).toBe(true)
  // one that is left early, and others while it is read
  const early = client.openInput()[Symbol.asyncIterator]()
  await early.next()
  const passes = await Promise.all([read(client), read(client), buffer(client.openValidation())])
  await early.return?.()
  expect(passes.map((pass) => pass.equals(ROWS))).toEqual([true, true, true])
  expect((await read(client)).equals(ROWS)).toBe(true)
  expect(asked).toEqual([true, true])
  expect(fetched.map((path) => path.split('/').at(-1))).toEqual(['input', 'validation'])
  expect(await readdir(scratch)).toEqual([])
  // of the next job nothing is kept
  await client.close()
  expect((await read(client)).equals(ROWS)).toBe(true)
  expect(fetched).toHaveLength(3)
  await client.close()
})

it('a pass over kept rows is progress, and where the disk has no room the server is asked from then on', async () => {
  const store = await listen((_, response) => void response.writeHead(200).end(ROWS))
  const asked: boolean[] = []
  const url = await listen((request, response) => {
    const isDirect = request.headers['x-trainyard-direct'] === '1'
    asked.push(isDirect)
    const head = { 'x-content-sha256': SHA256 }
    if (isDirect) response.writeHead(302, { ...head, location: store }).end()
    else response.writeHead(200, head).end(ROWS)
  })
  vi.resetModules()
  const { createWorkerClient: create } = await import('#training/worker/worker-client.js')
  let parts = 0
  const onRows = (): void => {
    parts += 1
  }
  const client = create({ url, token: 't', jobId: 'j', attempt: 1, readsDirect: true }, { onRows })
  expect((await read(client)).equals(ROWS)).toBe(true)
  const first = parts
  expect(first).toBeGreaterThan(1)
  expect((await read(client)).equals(ROWS)).toBe(true)
  expect(parts).toBeGreaterThan(first)
  await client.close()

  const full = createKeptRows(() => undefined)
  const noRoom = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  const failing = async function* (): AsyncGenerator<Uint8Array> {
    yield ROWS.subarray(0, 10)
    throw noRoom
  }
  await expect(full.keep('/input', SHA256, failing())).rejects.toBe(noRoom)
  asked.length = 0
  const send: FencedRequests = (method, _path, { isFromServer = false } = {}) =>
    fetch(url, { method, headers: isFromServer ? {} : { 'x-trainyard-direct': '1' } })
  expect((await buffer(readRows(send, '/input', full))).equals(ROWS)).toBe(true)
  expect(asked).toEqual([false])
})

it('two that keep the same rows at once use one file', async () => {
  const kept = createKeptRows(() => undefined)
  const body = async function* (): AsyncGenerator<Uint8Array> {
    yield ROWS
  }
  const files = await Promise.all([kept.keep('/input', SHA256, body()), kept.keep('/input', SHA256, body())])
  const passes = await Promise.all(files.map((file) => buffer(file.read())))
  expect(passes.every((pass) => pass.equals(ROWS))).toBe(true)
  await kept.close()
})
