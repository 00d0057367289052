/**
 * What a write resolves to is on the disk, and the event loop does not wait for it.
 */
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import { createLocalBlobs } from '#service/storage/blobs/local-blobs.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { openDatabase } from '../../../support/service/with-plugins.js'
import { until } from '../../../support/until.js'

let directory: string
let opened: OpenDatabase
/** Files: a prototype whose `datasync` a test may hold up. */
let files: FileHandle
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'durable-'))
  opened = await openDatabase(join(directory, 'database.sqlite3'))
  await sql`create table t (x)`.execute(opened.db)
  const file = await open(join(directory, 'any'), 'w')
  files = Object.getPrototypeOf(file)
  await file.close()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await opened.close()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

function insert(): Promise<unknown> {
  return opened.db.transaction().execute((transaction) => sql`insert into t values (1)`.execute(transaction))
}

async function count(): Promise<number | undefined> {
  return (await sql<{ n: number }>`select count(*) as n from t`.execute(opened.db)).rows[0]?.n
}

/** Holds up every sync until the test lets it go. */
function holdSyncs() {
  const held: { readonly go: () => void }[] = []
  const { datasync } = files
  vi.spyOn(files, 'datasync').mockImplementation(async function (this: FileHandle) {
    const { promise, resolve } = createDeferred<void>()
    held.push({ go: () => resolve() })
    await promise
    await datasync.call(this)
  })
  return held
}

test('a write waits for the disk while others read and write', async () => {
  const held = holdSyncs()
  const ended: string[] = []
  const first = insert().then(() => ended.push('first'))
  await until(() => held.length === 1, 'the first wait for the disk')
  const others = Promise.all(['second', 'third'].map((name) => insert().then(() => ended.push(name))))
  expect(await count()).toBe(3)
  expect(ended).toEqual([])
  held[0]?.go()
  await first
  expect(ended).toEqual(['first'])
  // what was committed while the disk was busy shares the next wait
  await until(() => held.length === 2, 'the second wait for the disk')
  held[1]?.go()
  await others
  expect(ended).toEqual(['first', 'second', 'third'])
  expect(held).toHaveLength(2)
})

test('reading does not wait for it', async () => {
  await insert()
  const held = holdSyncs()
  expect(await count()).toBe(1)
  await opened.db.transaction().execute((transaction) => sql`select x from t`.execute(transaction))
  expect(held).toEqual([])
})

test('a disk that fails is told to who wrote, and the next write tries again', async () => {
  const failure = Object.assign(new Error('i/o error'), { code: 'EIO' })
  vi.spyOn(files, 'datasync').mockRejectedValueOnce(failure)
  await expect(insert()).rejects.toMatchObject({
    code: 'disk_full',
    cause: failure,
    message: expect.stringContaining('it may be done all the same'),
    hint: expect.stringContaining('Idempotency-Key'),
  })
  await insert()
  expect(await count()).toBe(2)
})

test.skipIf(process.platform === 'win32')(
  'a directory that was removed is told to who writes, and files are refused too',
  async () => {
    await insert()
    const blobs = await createLocalBlobs(join(directory, 'blobs'))
    await rm(directory, { recursive: true })
    for (const write of [insert, insert, () => blobs.put([Buffer.from('a')])]) {
      await expect(write()).rejects.toMatchObject({ code: 'data_dir_removed', category: 'internal' })
    }
    // and nobody reads what was refused
    expect(await count()).toBe(1)
  },
)
