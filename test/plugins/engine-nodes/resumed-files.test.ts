/**
 * Files of a base model from a real server through connections that break: each answer goes on where the last one ended, and what arrives has
 * its digest.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { fetchBaseModel } from '#model/weights/fetch-base-model.js'
import { createServerLink } from '#plugins/engine-nodes/node/server-link.js'
import { type FaultyProxy, startFaultyProxy } from '../../support/faulty-proxy.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const NAME = 'trainyard/tiny-random'
const WEIGHTS = 'model.safetensors'
const PATH = `/internal/engine/base-models/${encodeURIComponent(NAME)}/files/${WEIGHTS}`
let service: TestService
let proxy: FaultyProxy
let directory: string
beforeAll(async () => {
  service = await createTestService({ engines: 'auto' })
  proxy = await startFaultyProxy(service.url)
  directory = await mkdtemp(join(tmpdir(), 'trainyard-resumed-'))
})
afterAll(async () => {
  await proxy.stop()
  await service.dispose()
  await rm(directory, { recursive: true, force: true })
})

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const source = () => createServerLink({ url: proxy.url, apiKey: service.apiKey }).baseModel(NAME)

it('goes on behind each break and asks for no byte twice', async () => {
  const { files } = await source().getBaseModelFiles()
  const size = files.find(({ name }) => name === WEIGHTS)?.size_bytes ?? 0
  // more breaks than tries that bring nothing are allowed
  const part = Math.ceil(size / 9)
  const ranges: string[] = []
  proxy.choose((request) => {
    if (request.url?.endsWith(WEIGHTS) !== true) return null
    ranges.push(request.headers.range ?? 'all')
    return ranges.length < 9 ? { kind: 'cut', afterBytes: part } : null
  })
  const folder = await fetchBaseModel({ client: source(), directory, onPart: () => undefined })
  const whole = await service.fetch(PATH)
  expect(digestOf(await readFile(join(folder, WEIGHTS)))).toBe(digestOf(Buffer.from(await whole.arrayBuffer())))
  expect(ranges[0]).toBe('all')
  const starts = ranges.slice(1).map((range) => Number(/^bytes=(\d+)-$/.exec(range)?.[1]))
  expect(starts).toHaveLength(8)
  expect(starts).toEqual(starts.toSorted((a, b) => a - b))
  expect(starts[0]).toBeGreaterThan(0)
  expect(new Set(starts).size).toBe(8)
})

it('answers ranges in the words of HTTP, and whole files to whoever asks for something else', async () => {
  const whole = Buffer.from(await (await service.fetch(PATH)).arrayBuffer())
  const ask = async (range: string) => {
    const answer = await service.fetch(PATH, { headers: { range } })
    return {
      status: answer.status,
      range: answer.headers.get('content-range'),
      sha256: digestOf(Buffer.from(await answer.arrayBuffer())),
    }
  }
  const end = `${whole.length - 1}/${whole.length}`
  expect(await ask('bytes=1000-')).toEqual({
    status: 206,
    range: `bytes 1000-${end}`,
    sha256: digestOf(whole.subarray(1000)),
  })
  for (const range of ['bytes=0-', 'bytes=5-9', 'bytes=-5', `bytes=${whole.length}-`, 'lines=3-']) {
    expect(await ask(range), range).toEqual({ status: 200, range: null, sha256: digestOf(whole) })
  }
})

it('gives up where five tries in a row bring nothing', async () => {
  let count = 0
  proxy.choose((request) => {
    if (request.url?.endsWith(WEIGHTS) !== true) return null
    count += 1
    return { kind: 'cut', afterBytes: 0 }
  })
  const failed = fetchBaseModel({ client: source(), directory: join(directory, 'none'), onPart: () => undefined })
  await expect(failed).rejects.toThrow(/terminated|closed|reset|socket/i)
  expect(count).toBe(5)
})
