/**
 * OpenAI's uploads by its own client: parts become a file with the checks of its purpose; what is left open is forgotten after an hour,
 * and its bytes with it, and not before.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import { sweepUploads } from '#plugins/uploads/start.js'
import { createUploadService } from '#plugins/uploads/uploads.js'
import { createBlobSweeper } from '#service/operations/blob-sweeper.js'
import type { Principal } from '#service/operations/context.js'
import { createFileService } from '#service/operations/files.js'
import { createLocalBlobs } from '#service/storage/blobs/local-blobs.js'
import { openDataDir } from '#service/storage/data-dir.js'
import { seenByClient } from '../../../support/clients/run-client.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { openDatabase } from '../../../support/service/with-plugins.js'
import { temporaryDirectory } from '../../../support/temporary-directory.js'

const PYTHON = resolve('.cache/venv/bin/python')
const md5 = (text: string): string => createHash('md5').update(text).digest('hex')

let service: TestService
let client: OpenAI
beforeAll(async () => {
  service = await createTestService()
  client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.apiKey, maxRetries: 0 })
})
afterAll(() => service.dispose())

const begin = (bytes: number, wanted: Partial<OpenAI.UploadCreateParams> = {}) =>
  client.uploads.create({ bytes, filename: 'rows.jsonl', mime_type: 'text/jsonl', purpose: 'fine-tune', ...wanted })
const send = async (uploadId: string, text: string) =>
  client.uploads.parts.create(uploadId, { data: await toFile(Buffer.from(text), 'part') })

const ROW = `${JSON.stringify({
  messages: [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ],
})}\n`

describe('an upload', () => {
  it('joins its parts in the order that is named, whatever order they came in', async () => {
    const text = ROW.repeat(3)
    const upload = await begin(text.length)
    expect(upload).toMatchObject({ object: 'upload', status: 'pending', bytes: text.length, file: null })
    expect(upload.expires_at - upload.created_at).toBe(3600)
    const last = await send(upload.id, text.slice(50))
    const first = await send(upload.id, text.slice(0, 50))
    expect(first).toMatchObject({ object: 'upload.part', upload_id: upload.id })
    const done = await client.uploads.complete(upload.id, { part_ids: [first.id, last.id], md5: md5(text) })
    expect(done).toMatchObject({ status: 'completed', file: { purpose: 'fine-tune', status: 'processed' } })
    expect(await (await client.files.content(done.file?.id ?? '')).text()).toBe(text)
    // a client that did not hear the answer asks again
    expect(await client.uploads.complete(upload.id, { part_ids: [first.id, last.id] })).toEqual(done)
    await expect(send(upload.id, 'x')).rejects.toMatchObject({ status: 400, code: 'upload_completed' })
  })

  it('is one file when it is completed twice at once', async () => {
    const upload = await begin(ROW.length)
    const { id } = await send(upload.id, ROW)
    const both = await Promise.all([1, 2].map(() => client.uploads.complete(upload.id, { part_ids: [id] })))
    expect(both[0]?.file?.id).toBe(both[1]?.file?.id)
  })

  it('makes a file that is checked as any is', async () => {
    const upload = await begin(3)
    const part = await send(upload.id, 'no\n')
    const { file } = await client.uploads.complete(upload.id, { part_ids: [part.id] })
    expect(file).toMatchObject({ status: 'error', status_details: expect.stringContaining('Line 1') })
  })

  it('is refused where bytes, parts, digest or purpose are not what was said', async () => {
    await expect(begin(1, { purpose: 'poetry' as never })).rejects.toMatchObject({ status: 400, param: 'purpose' })
    await expect(begin(8 * 1024 ** 3 + 1)).rejects.toMatchObject({ status: 400 })
    const expiring = begin(1, { expires_after: { anchor: 'created_at', seconds: 3600 } })
    await expect(expiring).rejects.toMatchObject({ param: 'expires_after' })
    const upload = await begin(4)
    const part = await send(upload.id, 'four')
    const complete = (body: OpenAI.UploadCompleteParams) => client.uploads.complete(upload.id, body)
    await expect(complete({ part_ids: [part.id, part.id] })).rejects.toMatchObject({ code: 'unknown_part' })
    await expect(complete({ part_ids: ['part_none'] })).rejects.toMatchObject({ code: 'unknown_part' })
    await expect(complete({ part_ids: [part.id], md5: md5('five') })).rejects.toMatchObject({ code: 'md5_mismatch' })
    const more = await send(upload.id, '!')
    const tooLong = complete({ part_ids: [part.id, more.id] })
    await expect(tooLong).rejects.toMatchObject({ code: 'upload_size_mismatch' })
    // none of that has closed it, or made a file
    expect(await complete({ part_ids: [part.id], md5: md5('four') })).toMatchObject({ status: 'completed' })
  })

  it('is cancelled once, and takes nothing any more', async () => {
    const upload = await begin(4)
    expect(await client.uploads.cancel(upload.id)).toMatchObject({ status: 'cancelled', file: null })
    await expect(client.uploads.cancel(upload.id)).rejects.toMatchObject({ code: 'upload_cancelled' })
    await expect(send(upload.id, 'four')).rejects.toMatchObject({ code: 'upload_cancelled' })
    await expect(client.uploads.complete(upload.id, { part_ids: ['x'] })).rejects.toMatchObject({ status: 400 })
  })

  it('begins once for an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'one upload' }
    const request = { bytes: 1, filename: 'f', mime_type: 'text/plain', purpose: 'batch' } as const
    const twice = await Promise.all([1, 2].map(() => client.uploads.create(request, { headers })))
    expect(twice[0]?.id).toBe(twice[1]?.id)
  })
  it('is sent whole by the Python client', { skip: !existsSync(PYTHON) }, async () => {
    const directory = await temporaryDirectory()
    const path = join(directory, 'rows.jsonl')
    const text = ROW.repeat(2000)
    await writeFile(path, text)
    const script = `
import json, os, sys, pathlib
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2])
done = client.uploads.upload_file_chunked(
    file=pathlib.Path(sys.argv[3]), mime_type="text/jsonl", purpose="fine-tune", part_size=65536)
print(json.dumps({"status": done.status, "file": done.file.id, "bytes": done.bytes}))
`
    const program = join(directory, 'upload.py')
    await writeFile(program, script)
    const seen = await seenByClient<{ status: string; file: string; bytes: number }>(
      PYTHON,
      [program, `${service.url}/v1`, service.apiKey, path],
      { timeoutMs: 120_000 },
    )
    expect(seen).toMatchObject({ status: 'completed', bytes: text.length })
    expect(await (await client.files.content(seen.file)).text()).toBe(text)
  })
})

describe('an upload that nobody completes', () => {
  it('keeps its bytes for its hour, and not much longer; an entity has room for a bounded number', async () => {
    const directory = await temporaryDirectory()
    ;(await openDataDir(directory)).unlock()
    const database = await openDatabase(join(directory, 'rows.sqlite3'))
    let aheadMs = 0
    const clock = { nowMs: () => Date.now() + aheadMs, monotonicMs: () => performance.now() + aheadMs }
    const blobs = await createLocalBlobs(join(directory, 'blobs'), clock)
    const logger = createLogger({ level: 'silent' })
    const sweeper = createBlobSweeper({ db: database.db, blobs, clock, logger, graceMs: 120_000 })
    await sweeper.start(0)
    const context = { db: database.db, blobs, clock, ids: systemIds, requestSweep: () => undefined }
    const uploads = createUploadService(context, createFileService(context))
    const principal: Principal = {
      ...{ entity: 'e', project: null, keyId: 'k', keyPrefix: '', sessionId: null, scope: 'write', usageProject: null },
    }
    const request = { bytes: 4, filename: 'f', purpose: 'batch', mime_type: null }
    const upload = await uploads.create(principal, request, null)
    const takePart = await uploads.openPart(principal, upload.id)
    async function* bytes() {
      yield Buffer.from('four')
    }
    const part = await takePart(bytes(), Promise.resolve())
    const held = async () => {
      const digests: string[] = []
      for await (const sha256 of blobs.list()) digests.push(sha256)
      return digests.length
    }
    const later = async (ms: number) => {
      aheadMs += ms
      await sweepUploads(context)
      await sweeper.sweep()
    }
    for (let i = 0; i < 5; i++) await later(600_000)
    expect(await held()).toBe(1)
    aheadMs += 601_000
    await expect(uploads.openPart(principal, upload.id)).rejects.toMatchObject({ code: 'upload_expired' })
    const late = uploads.complete(principal, upload.id, { part_ids: [part.id] })
    await expect(late).rejects.toMatchObject({ code: 'upload_expired' })
    await later(0)
    await expect(uploads.openPart(principal, upload.id)).rejects.toMatchObject({ code: 'upload_not_found' })
    await later(600_000)
    expect(await held()).toBe(0)

    for (let i = 0; i < 64; i++) await uploads.create(principal, request, null)
    await expect(uploads.create(principal, request, null)).rejects.toMatchObject({ code: 'too_many_uploads' })
    await uploads.create({ ...principal, entity: 'others' }, request, null)
    aheadMs += 3_600_001
    await uploads.create(principal, request, null)
    await sweeper.stop()
    await database.close()
  })
})
