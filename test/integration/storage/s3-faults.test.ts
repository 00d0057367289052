/**
 * What a bucket store does when the network, the store, the disk or the person who set it up fails: a write is acknowledged only when it
 * is kept, and no byte is given that is not the blob's.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseS3Address } from '#plugins/s3/s3-address.js'
import { openS3Blobs } from '#plugins/s3/s3-blobs.js'
import { createCredentialSource } from '#plugins/s3/s3-credentials.js'
import type { RemoteBlobs } from '#service/storage/blobs/remote-blobs.js'
import { type BlobRef, LOCAL_FILE_MS } from '#service/storage/blobs.js'
import { type FaultyProxy, startFaultyProxy } from '../../support/faulty-proxy.js'
import { S3_SERVERS, type S3Server } from '../../support/local-s3.js'

const MB = 1024 ** 2
const kind = S3_SERVERS.find(({ isThere }) => isThere)

describe.skipIf(kind === undefined)('a bucket behind a network', () => {
  let server: S3Server
  let proxy: FaultyProxy
  let root: string
  let aheadMs: number
  let store: RemoteBlobs
  const clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() + aheadMs }

  const open = (address: string, keys: Readonly<Record<string, string>> = {}): Promise<RemoteBlobs> => {
    const environment = { ...server.environment, ...keys }
    return openS3Blobs({
      address: parseS3Address(address, environment),
      credentials: createCredentialSource(environment),
      cachePath: join(root, 'cache'),
      clock,
      random: Math.random,
      tuning: { partBytes: 5 * MB, retryMs: 5, silenceMs: 1000 },
    })
  }
  const addressOf = (bucket = 'blobs', endpoint = proxy.url) => `s3://${bucket}/p?endpoint=${endpoint}&cache=64MB`

  beforeAll(async () => {
    server = await (kind ?? expect.fail()).start()
    await server.makeBucket('blobs')
  })
  afterAll(() => server.stop())
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'trainyard-s3-'))
    aheadMs = 0
    proxy = await startFaultyProxy(server.endpoint)
    store = await open(addressOf())
  })
  afterEach(async () => {
    await proxy.stop()
    await rm(root, { recursive: true, force: true })
  })

  let texts = 0
  /** Bytes that no earlier test has stored. */
  function fresh(sizeBytes = 1000): Buffer {
    texts += 1
    return Buffer.alloc(sizeBytes, `${process.pid} ${performance.now()} ${texts}. `)
  }
  const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  const read = async (sha256: string) => buffer(await store.openRead(sha256))
  /** As a server that starts with an empty disk. */
  async function forgetCopies(): Promise<void> {
    await rm(join(root, 'cache'), { recursive: true })
    store = await open(addressOf())
  }
  const requests = (method: string) => proxy.seen.filter((each) => each.startsWith(`${method} `)).length

  it.each([500, 503, 429])('a write that is answered with %i is tried again', async (status) => {
    proxy.choose(({ method }, count) => (method === 'PUT' && count < 2 ? { kind: 'answer', status } : null))
    const bytes = fresh()
    const { sha256 } = await store.put([bytes])
    expect(requests('PUT')).toBe(3)
    await forgetCopies()
    expect((await read(sha256)).equals(bytes)).toBe(true)
  })

  it('a write whose connection or answer is lost is done once and acknowledged', async () => {
    proxy.choose(({ method }, count) =>
      method !== 'PUT' ? null : count === 0 ? { kind: 'refuse' } : count === 1 ? { kind: 'lose answer' } : null,
    )
    const bytes = fresh()
    const { sha256 } = await store.put([bytes])
    expect(await store.digestOf(sha256)).toBe(sha256)
  })

  it('a write that the store never takes is not acknowledged, and leaves nothing on the disk', async () => {
    proxy.choose(() => ({ kind: 'answer', status: 503, body: '<Error><Code>SlowDown</Code></Error>' }))
    await expect(store.put([fresh()])).rejects.toMatchObject({
      category: 'unavailable',
      code: 'blob_store_unavailable',
      message: expect.stringContaining('answers 503 SlowDown'),
    })
    expect(await readdir(join(root, 'cache', 'incoming'))).toEqual([])
  })

  it('a large write whose part fails for good is aborted', async () => {
    proxy.choose(({ url = '' }) => (url.includes('partNumber=2') ? { kind: 'answer', status: 500 } : null))
    const bytes = fresh(12 * MB)
    await expect(store.put([bytes])).rejects.toMatchObject({ code: 'blob_store_unavailable' })
    expect(proxy.seen.at(-1)).toMatch(/^DELETE .*uploadId=/)
    expect(await store.has(digestOf(bytes))).toBe(false)
    proxy.choose(() => null)
    await store.put([bytes])
    await forgetCopies()
    expect((await read(digestOf(bytes))).equals(bytes)).toBe(true)
  })

  it('a large write whose last answer is lost is acknowledged', async () => {
    let isLost = false
    proxy.choose(({ method, url = '' }) => {
      if (isLost || method !== 'POST' || !url.includes('uploadId=')) return null
      isLost = true
      return { kind: 'lose answer' }
    })
    const bytes = fresh(6 * MB)
    await store.put([bytes])
    expect(isLost).toBe(true)
    expect(await store.digestOf(digestOf(bytes))).toBe(digestOf(bytes))
  })

  it('a read that is cut goes on where it was', async () => {
    const bytes = fresh(3 * MB)
    const { sha256 } = await store.put([bytes])
    await forgetCopies()
    const before = requests('GET')
    proxy.choose(() => (requests('GET') - before < 3 ? { kind: 'cut', afterBytes: MB / 2 } : null))
    expect((await read(sha256)).equals(bytes)).toBe(true)
    expect(requests('GET') - before).toBe(4)
  })

  it('bytes that are damaged on the way are fetched again, and never given', async () => {
    const bytes = fresh()
    const { sha256 } = await store.put([bytes])
    await forgetCopies()
    let count = 0
    proxy.choose(() => {
      count += 1
      return count === 1 ? { kind: 'damage' } : null
    })
    expect((await read(sha256)).equals(bytes)).toBe(true)
    await forgetCopies()
    proxy.choose(() => ({ kind: 'damage' }))
    await expect(store.openRead(sha256)).rejects.toMatchObject({ code: 'blob_corrupt' })
    await expect(store.localFile(sha256)).rejects.toMatchObject({ code: 'blob_corrupt' })
  })

  it('a store that is away, or silent, is said to be; what is on the disk is given all the same', async () => {
    const here = await store.put([fresh()])
    const elsewhere = await store.put([fresh()])
    await forgetCopies()
    await read(here.sha256)
    for (const fault of ['refuse', 'silence'] as const) {
      proxy.choose(() => ({ kind: fault }))
      await expect(store.openRead(elsewhere.sha256)).rejects.toMatchObject({ code: 'blob_store_unavailable' })
      await expect(store.has(here.sha256)).rejects.toMatchObject({ code: 'blob_store_unavailable' })
      expect((await read(here.sha256)).length).toBe(1000)
    }
  })

  it('one fetch serves all who ask meanwhile', async () => {
    const { sha256 } = await store.put([fresh(2 * MB)])
    await forgetCopies()
    const before = requests('GET')
    await Promise.all(Array.from({ length: 20 }, () => store.localFile(sha256)))
    expect(requests('GET') - before).toBe(1)
  })

  it('a copy that the disk has damaged is fetched anew, also by the next process', async () => {
    const bytes = fresh()
    const { sha256 } = await store.put([bytes])
    const path = await store.localFile(sha256)
    for (const isNextProcess of [false, true]) {
      await writeFile(path, Buffer.alloc(1000, 'rubbish'))
      if (isNextProcess) store = await open(addressOf())
      expect(await readFile(await store.localFile(sha256))).toEqual(bytes)
    }
  })

  it('copies stay within their bound, but for what was asked for within the hour', async () => {
    const refs: BlobRef[] = []
    for (let i = 0; i < 3; i += 1) refs.push(await store.put([fresh(25 * MB)]))
    const sizeOnDisk = async () => {
      const sizes = await Promise.all(
        refs.map(async ({ sha256 }) => {
          const path = join(root, 'cache', sha256.slice(0, 2), sha256.slice(2))
          return (await stat(path).catch(() => null))?.size ?? 0
        }),
      )
      return sizes.map((size) => size / MB)
    }
    expect(await sizeOnDisk()).toEqual([25, 25, 25])
    aheadMs = LOCAL_FILE_MS
    await store.localFile(refs[0]?.sha256 ?? '')
    refs.push(await store.put([fresh(10 * MB)]))
    // the least recently used went
    expect(await sizeOnDisk()).toEqual([25, 0, 25, 10])
    store = await open(addressOf())
    expect(await sizeOnDisk()).toEqual([25, 0, 25, 10])
  })

  describe('that is set up wrongly is told apart', () => {
    const checked = async (address: string, keys?: Readonly<Record<string, string>>) =>
      (await open(address, keys)).check()

    it('when the bucket does not exist', async () => {
      await expect(checked(addressOf('no-such-bucket'))).rejects.toMatchObject({
        code: 'blob_store_refused',
        message: expect.stringContaining('the bucket does not exist'),
      })
    })

    it('when nobody listens', async () => {
      await proxy.stop()
      await expect(checked(addressOf())).rejects.toMatchObject({
        code: 'blob_store_unavailable',
        message: expect.stringContaining('ECONNREFUSED'),
      })
      proxy = await startFaultyProxy(server.endpoint)
    })

    it.each([
      ['RequestTimeTooSkewed', 403, {}, /clock/],
      ['AuthorizationHeaderMalformed', 400, {}, /another region/],
      ['ExpiredToken', 400, {}, /token has expired/],
      ['AccessDenied', 403, {}, /may not do that/],
    ])('when it says %s', async (code, status, _, words) => {
      proxy.choose(() => ({ kind: 'answer', status, body: `<Error><Code>${code}</Code></Error>` }))
      await expect(checked(addressOf())).rejects.toMatchObject({
        code: 'blob_store_refused',
        message: expect.stringMatching(words),
        hint: expect.stringMatching(/./),
      })
    })

    it('when there are no keys', async () => {
      const keys = { AWS_SECRET_ACCESS_KEY: '', AWS_SHARED_CREDENTIALS_FILE: join(root, 'none') }
      await expect(checked(addressOf(), keys)).rejects.toMatchObject({ code: 'blob_store_keys_missing' })
    })

    it('and keys may come from a file, which is read again when it changes', async () => {
      const path = join(root, 'credentials')
      const keys = { AWS_ACCESS_KEY_ID: '', AWS_SHARED_CREDENTIALS_FILE: path, AWS_PROFILE: 'trainyard' }
      const byFile = await open(addressOf(), keys)
      await writeFile(path, '[default]\naws_access_key_id = a\naws_secret_access_key = b\n')
      await expect(byFile.check()).rejects.toMatchObject({ code: 'blob_store_keys_missing' })
      const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = server.environment
      await writeFile(path, `[trainyard]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`)
      expect(await byFile.check()).toMatch(/written to s3:/)
    })
  })
})

const strict = S3_SERVERS.find(({ isThere, checksKeys }) => isThere && checksKeys)

it.skipIf(strict === undefined)('a store that checks keys refuses wrong ones, and the error says which', async () => {
  const server = await (strict ?? expect.fail()).start()
  const root = await mkdtemp(join(tmpdir(), 'trainyard-s3-'))
  try {
    await server.makeBucket('blobs')
    const check = async (keys: Readonly<Record<string, string>>) => {
      const environment = { ...server.environment, ...keys }
      const store = await openS3Blobs({
        address: parseS3Address(`s3://blobs?endpoint=${server.endpoint}`, environment),
        credentials: createCredentialSource(environment),
        cachePath: join(root, 'cache'),
        clock: { nowMs: () => Date.now(), monotonicMs: () => performance.now() },
        random: Math.random,
      })
      return store.check()
    }
    expect(await check({})).toMatch(/written/)
    await expect(check({ AWS_ACCESS_KEY_ID: 'somebody' })).rejects.toMatchObject({
      code: 'blob_store_refused',
      message: expect.stringContaining('the access key is not known'),
    })
    await expect(check({ AWS_SECRET_ACCESS_KEY: 'guessed' })).rejects.toMatchObject({
      code: 'blob_store_refused',
      message: expect.stringContaining('the secret key does not fit'),
    })
  } finally {
    await server.stop()
    await rm(root, { recursive: true, force: true, maxRetries: 20 })
  }
})
