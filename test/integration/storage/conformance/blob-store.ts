/**
 * What every `BlobStore` has to do, wherever it keeps the bytes. A store calls this with a factory of its own.
 */
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { BlobStore } from '#service/storage/blobs.js'

export interface TestedStore {
  readonly store: BlobStore
  /** Puts other bytes in the place of a blob's. */
  damage(sha256: string): Promise<void>
  close(): Promise<void>
}

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const HOUR_MS = 3_600_000

/** @param options.largeBytes a size that the store treats as large */
export function blobStoreConformance(
  name: string,
  open: () => Promise<TestedStore>,
  { largeBytes = 3_000_000, isSkipped = false }: { readonly largeBytes?: number; readonly isSkipped?: boolean } = {},
): void {
  describe.skipIf(isSkipped)(`${name} is a blob store`, () => {
    let tested: TestedStore
    let store: BlobStore
    beforeAll(async () => {
      tested = await open()
      store = tested.store
    })
    afterAll(() => tested.close())

    const put = (text: string) => store.put([Buffer.from(text)])
    const read = async (sha256: string) => buffer(await store.openRead(sha256))
    async function listed(): Promise<string[]> {
      const found: string[] = []
      for await (const sha256 of store.list()) found.push(sha256)
      return found.sort()
    }

    it.each([
      ['nothing', 0],
      ['one byte', 1],
      ['many bytes', 300_000],
      ['large', largeBytes],
    ])('keeps %s under its digest', async (_, sizeBytes) => {
      const bytes = Buffer.alloc(sizeBytes, 'abcdefghijklm')
      const ref = await store.put(pieces(bytes))
      expect(ref).toEqual({ sha256: digestOf(bytes), sizeBytes })
      expect((await read(ref.sha256)).equals(bytes)).toBe(true)
      expect((await readFile(await store.localFile(ref.sha256))).equals(bytes)).toBe(true)
      expect(await store.has(ref.sha256)).toBe(true)
      expect(await store.digestOf(ref.sha256)).toBe(ref.sha256)
      expect((await store.factsOf(ref.sha256))?.sizeBytes).toBe(sizeBytes)
    })

    it('keeps equal bytes once, however many write them at once', async () => {
      const refs = await Promise.all(Array.from({ length: 20 }, () => put('the same')))
      expect(new Set(refs.map(({ sha256 }) => sha256)).size).toBe(1)
      expect((await listed()).filter((sha256) => sha256 === refs[0]?.sha256)).toHaveLength(1)
      expect((await read(refs[0]?.sha256 ?? '')).toString()).toBe('the same')
    })

    it('lists what it has', async () => {
      const refs = [await put('first'), await put('second')]
      expect(await listed()).toEqual(expect.arrayContaining(refs.map(({ sha256 }) => sha256)))
    })

    it('refuses other bytes than were announced, too many, and a source that breaks off, and keeps none of them', async () => {
      const before = await listed()
      await expect(store.put([Buffer.from('x')], { expectedSha256: '0'.repeat(64) })).rejects.toMatchObject({
        code: 'digest_mismatch',
      })
      await expect(store.put([Buffer.from('too long')], { maxBytes: 5 })).rejects.toMatchObject({
        code: 'request_too_large',
      })
      await expect(store.put(broken())).rejects.toThrow('cut off')
      const writer = await store.createWriter()
      await writer.write('never committed')
      await writer.abort()
      await writer.abort()
      expect(await listed()).toEqual(before)
    })

    it('takes over a file whose digest is known', async () => {
      const path = store.temporaryPath()
      await writeFile(path, 'written elsewhere')
      const ref = { sha256: digestOf(Buffer.from('written elsewhere')), sizeBytes: 17 }
      expect(await store.adopt(path, ref)).toEqual(ref)
      await expect(readFile(path)).rejects.toMatchObject({ code: 'ENOENT' })
      expect((await read(ref.sha256)).toString()).toBe('written elsewhere')
    })

    it('says of a blob that it does not have that it is missing', async () => {
      const sha256 = digestOf(Buffer.from('never stored'))
      await expect(store.openRead(sha256)).rejects.toMatchObject({ code: 'blob_missing' })
      expect([await store.has(sha256), await store.factsOf(sha256), await store.digestOf(sha256)]).toEqual([
        false,
        null,
        null,
      ])
      await expect(store.openRead('../../etc/passwd')).rejects.toThrow(/64 hex digits/)
    })

    it('deletes what is older than the grace, and nothing younger', async () => {
      const { sha256 } = await put('to be swept')
      expect(await store.removeOlderThan(sha256, HOUR_MS)).toBe(false)
      expect(await store.has(sha256)).toBe(true)
      expect(await store.removeOlderThan(sha256, 0)).toBe(true)
      expect(await store.has(sha256)).toBe(false)
      await expect(store.openRead(sha256)).rejects.toMatchObject({ code: 'blob_missing' })
      expect(await store.removeOlderThan(sha256, HOUR_MS)).toBe(true)
    })

    it('has a blob that is written while it is deleted, if the write was acknowledged last', async () => {
      for (let round = 0; round < 5; round += 1) {
        const { sha256 } = await put('swept and written')
        const removed = store.removeOlderThan(sha256, 0)
        await Promise.all([removed, put('swept and written')])
        expect((await read(sha256)).toString()).toBe('swept and written')
      }
    })

    it('finds damaged bytes, and makes them whole when they are written again', async () => {
      const { sha256 } = await put('to be damaged')
      await tested.damage(sha256)
      expect(await store.digestOf(sha256)).not.toBe(sha256)
      expect(await listed()).toContain(sha256)
      await put('to be damaged')
      expect(await store.digestOf(sha256)).toBe(sha256)
    })

    it('checks itself and leaves nothing of that behind but one blob', async () => {
      await store.check()
      const before = await listed()
      expect(await store.check()).toMatch(/written.*read back/)
      expect(await listed()).toEqual(before)
    })
  })
}

function* pieces(bytes: Buffer): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 70_001) yield bytes.subarray(at, at + 70_001)
}

async function* broken(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('half')
  throw new Error('cut off')
}
