/**
 * A hub that speaks the protocol and means harm: descriptions that are none, and files of another length than described, without an
 * end, from another place. No download outgrows its description, none is asked for for ever, and the server goes on.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BaseModel } from '#contract/wire/models.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { type FakeHub, filesOf, startFakeHub } from '../../../support/service/fake-hub.js'
import { until } from '../../../support/until.js'

let folder: string
let files: Map<string, Buffer>
let hub: FakeHub
let service: TestService

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  files = filesOf(await ensureTinyRandomModel(folder))
})
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 20 }))
beforeEach(async () => {
  hub = await startFakeHub()
  hub.repositories.set('org/tiny', files)
  service = await createTestService({ hub: { endpoint: hub.url }, tuning: { downloadRetryMs: 5 } })
})
afterEach(async () => {
  hub.close()
  await service.dispose()
})

interface ErrorBody {
  readonly error?: { readonly code: string; readonly message: string }
}
const add = () => service.json<ErrorBody>('/v1/preview/base-models', { json: { hub: 'org/tiny' } })
const read = async () => (await service.json<BaseModel>('/v1/preview/base-models/org/tiny')).body
const ended = () =>
  until(async () => {
    const found = await read()
    return found.status === 'downloading' ? null : found
  }, 'the end of the download')

/** Bytes of the data directory's base models. */
async function storedBytes(): Promise<number> {
  const directory = join(service.dataDir, 'base-models')
  const names = await readdir(directory, { recursive: true })
  const sizes = await Promise.all(names.map((name) => stat(join(directory, name)).then((found) => found.size)))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** What is left of it can be fetched from an honest hub. */
async function expectRecovery(): Promise<void> {
  hub.faults.body = null
  hub.faults.listing = null
  await add()
  expect(await ended()).toMatchObject({ status: 'ready', error: null })
}

const described = () => [...files.values()].reduce((sum, bytes) => sum + bytes.length, 0)

/** Writes until the other side leaves. */
function endless(answer: ServerResponse): void {
  const part = Buffer.alloc(65_536)
  const more = (): void => {
    while (!answer.destroyed && answer.write(part));
    if (!answer.destroyed) answer.once('drain', more)
  }
  more()
}

describe('a file', () => {
  it.each<[string, NonNullable<FakeHub['faults']['body']>, RegExp]>([
    ['without an end', (answer) => endless(answer.writeHead(200)), /longer than the hub describes/],
    [
      'of more bytes than described, as its own length says',
      (answer, bytes) =>
        answer
          .writeHead(200, { 'content-length': bytes.length + 1 })
          .end(Buffer.concat([bytes, bytes]).subarray(0, bytes.length + 1)),
      /longer than the hub describes/,
    ],
    [
      'that ends early, again and again',
      (answer, bytes) => answer.writeHead(200).end(bytes.subarray(0, 2000)),
      /ends after 2000 bytes/,
    ],
    ['of nothing', (answer) => answer.writeHead(200).end(), /ends after 0 bytes/],
    [
      'from another place than asked for',
      (answer, bytes, start) => {
        // ended in good order: of a connection cut here, a busy reader may drop the bytes and ask for all again
        if (start === 0) answer.writeHead(200).end(bytes.subarray(0, 2000))
        else
          answer
            .writeHead(206, { 'content-range': `bytes ${start + 1}-${bytes.length - 1}/${bytes.length}` })
            .end(bytes.subarray(start + 1))
      },
      /another range/,
    ],
    ['that an error page stands for', (answer) => answer.writeHead(500).end('x'.repeat(100_000)), /answered 500/],
    [
      'that is redirected for ever',
      (answer) => answer.writeHead(302, { location: '/cdn/org/tiny/tokenizer.json' }).end(),
      /redirects/,
    ],
    [
      'that is redirected to no address',
      (answer) => answer.writeHead(302, { location: 'http://[' }).end(),
      /no address/,
    ],
  ])('%s is given up, takes no more room than described, and can be fetched again', async (_, body, said) => {
    hub.faults.body = body
    expect((await add()).status).toBe(202)
    expect(await ended()).toMatchObject({ status: 'interrupted', error: expect.stringMatching(said) })
    expect(await storedBytes()).toBeLessThan(described() + 100_000)
    expect(hub.requests.length).toBeLessThan(100)
    await expectRecovery()
  })
})

describe('a description', () => {
  const listed = (siblings: unknown, sha: unknown = 'a'.repeat(40)) => JSON.stringify({ sha, siblings })
  const weights = { rfilename: 'model.safetensors', size: 5000, blobId: 'b'.repeat(40) }
  const settings = { rfilename: 'config.json', size: 500, blobId: 'c'.repeat(40) }
  it.each<[string, string]>([
    ['that is no JSON', '<html>'],
    ['that is a list', '[]'],
    ['without files', listed(null)],
    ['of a commit that is a path', listed([settings, weights], '../../../../etc/passwd')],
    ['of files in other folders', listed([settings, { ...weights, rfilename: '../model.safetensors' }])],
    ['of sizes below nothing', listed([settings, { ...weights, size: -1 }])],
    ['of sizes that are no numbers', listed([settings, { ...weights, size: '5000' }])],
    ['of sizes beyond any file', listed([settings, { ...weights, size: 1e300 }])],
    ['of more than the disk holds', listed([settings, { ...weights, size: 9e11 }])],
    ['without digests', listed([settings, { rfilename: 'model.safetensors', size: 5000 }])],
    ['of digests that are none', listed([settings, { ...weights, blobId: 'x', lfs: { sha256: '../x', size: 5000 } }])],
  ])('%s is refused at once, and nothing is fetched', async (_, body) => {
    hub.faults.listing = (answer) => answer.writeHead(200, { 'content-type': 'application/json' }).end(body)
    const { status, body: refused } = await add()
    expect(status, JSON.stringify(refused)).toBeGreaterThanOrEqual(400)
    expect(status === 503 || status < 500, JSON.stringify(refused)).toBe(true)
    expect(refused.error?.code).toMatch(/^hub_|^disk_full$/)
    expect(hub.requests.some(({ path }) => path.includes('resolve') || path.startsWith('/cdn'))).toBe(false)
    await expectRecovery()
  })

  it('without an end is given up', async () => {
    hub.faults.listing = (answer) => endless(answer.writeHead(200, { 'content-type': 'application/json' }))
    const { status, body } = await add()
    expect([status, body.error?.code], JSON.stringify(body)).toEqual([503, 'hub_failed'])
    await expectRecovery()
  })
})
