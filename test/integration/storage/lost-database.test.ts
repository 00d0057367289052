/**
 * A database that does not know the data beside it (empty, missing, older, another directory's): the start is refused, what to do is
 * said, and nothing of the data goes, whatever its owner decides.
 */
import { copyFile, cp, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createLocalKey } from '#plugins/data-directory.js'
import { openDataDir } from '#service/storage/data-dir.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService, sampleGroup, type TestServiceOptions } from '../../support/service/create-test-service.js'
import { openDatabase } from '../../support/service/with-plugins.js'

let folder: string
/** As it was before the last step of its model, and after it. */
let before: string
let after: string
let apiKey: string
let root: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-lost-'))
  before = join(folder, 'before')
  after = join(folder, 'after')
  const dataDir = join(folder, 'made')
  const service = await createTestService({ dataDir })
  apiKey = service.apiKey
  const modelId = await service.createModel('kept')
  const train = async (of: typeof service) => {
    const json = { model_id: modelId, trajectory_groups: [sampleGroup([1, 0])] }
    const { body } = await of.json<{ id: string }>('/v1/preview/training-jobs', { json })
    expect((await of.waitForJob(body.id)).status).toBe('completed')
  }
  await train(service)
  await service.close(2000)
  await cp(dataDir, before, { recursive: true, preserveTimestamps: true })
  const again = await createTestService({ dataDir, apiKey })
  await train(again)
  await again.close(2000)
  await cp(dataDir, after, { recursive: true, preserveTimestamps: true })
})
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 20 }))
beforeEach(async () => {
  root = await mkdtemp(join(folder, 'case-'))
  await cp(after, root, { recursive: true, preserveTimestamps: true })
})

const database = () => join(root, 'trainyard.sqlite3')
const blobsOf = async (path: string) => {
  const entries = await readdir(join(path, 'blobs/sha256'), { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name)
    .sort()
}
const keyOf = (path: string) => readFile(join(path, 'api-key'), 'utf8')
const start = (options: TestServiceOptions = {}) => createTestService({ dataDir: root, apiKey, ...options })

/** A start that is refused with a message, and leaves blobs and key. */
async function expectRefusal(message: RegExp, hint: string): Promise<void> {
  const refusal = {
    code: 'database_unreadable',
    message: expect.stringMatching(message),
    hint: expect.stringContaining(hint),
  }
  await expect(start()).rejects.toMatchObject(refusal)
  expect(await blobsOf(root)).toEqual(await blobsOf(after))
  expect(await keyOf(root)).toBe(apiKey)
}

describe.each([
  ['empty', () => truncate(database(), 0)],
  ['missing', () => rm(database())],
  [
    'of tables without rows',
    async () => {
      await rm(database())
      await (await openDatabase(database())).close()
    },
  ],
])('a database that is %s', (_, lose) => {
  beforeEach(async () => {
    await lose()
  })

  it('is refused beside data, by every start, and a key is not made in it either', async () => {
    await expectRefusal(/has no rows, and the data directory holds \d+ blobs, an api-key/, '--adopt-empty')
    await expectRefusal(/has no rows/, 'restore a backup')
    await expect(createLocalKey(root)).rejects.toMatchObject({ code: 'database_unreadable' })
    expect(await keyOf(root)).toBe(apiKey)
    // the lock is free again: with its database back, the directory is served
    await copyFile(join(after, 'trainyard.sqlite3'), database())
    const service = await start()
    expect((await service.json<{ data: unknown[] }>('/v1/preview/models')).body.data).toHaveLength(1)
    await service.close(1000)
  })

  it('is begun anew when its owner says so: nothing is deleted, and the key file is kept', async () => {
    for (const attempt of [1, 2]) {
      const service = await start({ adoptsEmptyDatabase: true })
      if (attempt === 1) {
        expect(service.createdApiKey).toMatch(/^ty_/)
        expect(await readFile(service.keptApiKeyFile ?? '', 'utf8')).toBe(apiKey)
        expect((await stat(service.keptApiKeyFile ?? '')).mode & 0o777).toBe(0o600)
      }
      await service.close(1000)
    }
    expect(await blobsOf(root)).toEqual(await blobsOf(after))
    // it belongs there now
    await (await start()).close(1000)
  })

  it('is nothing to adopt for a database that is another’s', async () => {
    await expect(start({ adoptsOtherDatabase: true })).rejects.toMatchObject({ code: 'database_unreadable' })
  })
})

it('a log without its database is kept: it may hold every row', async () => {
  await truncate(database(), 0)
  for (const path of await readdir(join(root, 'blobs/sha256')))
    await rm(join(root, 'blobs/sha256', path), { recursive: true })
  await rm(join(root, 'api-key'))
  await writeFile(`${database()}-wal`, 'rows')
  await expect(start()).rejects.toMatchObject({ message: expect.stringContaining('holds a trainyard.sqlite3-wal') })
  expect(await readFile(`${database()}-wal`, 'utf8')).toBe('rows')
  await (await start({ adoptsEmptyDatabase: true })).close(1000)
  expect(await readFile(`${database()}-wal.kept-1`, 'utf8')).toBe('rows')
})

it('a database that is older than the data is refused; adopted, it deletes nothing that it does not know', async () => {
  await copyFile(join(before, 'trainyard.sqlite3'), database())
  await expectRefusal(/is older than the data beside it: the data directory holds \d+ blobs/, '--adopt-database')
  for (const attempt of [1, 2]) {
    const service = await start({ adoptsOtherDatabase: attempt === 1 })
    expect((await service.json<{ step: number }[]>('/v1/preview/models')).status).toBe(200)
    await service.close(1000)
  }
  expect(await blobsOf(root)).toEqual(await blobsOf(after))
})

it('a database of an earlier version, put beside later data, is refused before its tables change', async () => {
  const sqlite = openSqlite(database())
  sqlite.exec('drop table database_identity')
  sqlite.close()
  await expectRefusal(/is older than the data/, 'put the newest database back')
})

it('another directory’s database is refused', async () => {
  const other = await mkdtemp(join(folder, 'other-'))
  await (await createTestService({ dataDir: other })).close(1000)
  await copyFile(join(other, 'trainyard.sqlite3'), database())
  await expectRefusal(/is not the one of this data directory/, '--adopt-database')
})

it('a directory without data, and one of an earlier version without a mark, start as ever', async () => {
  const empty = await mkdtemp(join(folder, 'empty-'))
  const dataDir = await openDataDir(empty)
  dataDir.unlock()
  await (await createTestService({ dataDir: empty })).close(1000)
  await rm(join(root, 'database-mark'))
  const service = await start()
  expect(service.createdApiKey).toBeNull()
  await service.close(1000)
  expect(await readFile(join(root, 'database-mark'), 'utf8')).toContain('"mark"')
})
