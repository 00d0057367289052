/**
 * The data directory: its lock, its blobs, its database, on a real disk and against real crashes.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { restoreBackup } from '#plugins/backup/data-directory.js'
import { createApiKey, findApiKey } from '#service/storage/api-keys.js'
import { createLocalBlobs, type LocalBlobs } from '#service/storage/blobs/local-blobs.js'
import { openDataDir } from '#service/storage/data-dir.js'
import { openDatabase } from '../../support/service/with-plugins.js'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'trainyard-storage-'))
})
afterEach(() => rm(root, { recursive: true, force: true, maxRetries: 20 }))

it('drops a built-in model that a crash left half-written, and nothing that is downloaded', async () => {
  const names = [`tiny-random.${systemIds.uuid()}.partial`, 'downloaded.partial', 'tiny-random']
  for (const name of names) await mkdir(join(root, 'base-models', name), { recursive: true })
  ;(await openDataDir(root)).unlock()
  expect((await readdir(join(root, 'base-models'))).sort()).toEqual(['downloaded.partial', 'tiny-random'])
})

describe('lock', () => {
  it('keeps a second server out until the first lets go', async () => {
    const first = await openDataDir(root)
    await expect(openDataDir(root)).rejects.toMatchObject({ code: 'data_dir_locked', category: 'conflict' })
    first.unlock()
    ;(await openDataDir(root)).unlock()
  })

  it('is free again after the holder was killed', async () => {
    const module = join(import.meta.dirname, '../../../dist/src/service/storage/data-dir.js')
    const script = `const { openDataDir } = await import(${JSON.stringify(module)}); await openDataDir(${JSON.stringify(root)}); console.log('held'); setInterval(() => {}, 1000)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    await expect(openDataDir(root)).rejects.toMatchObject({ code: 'data_dir_locked' })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
    ;(await openDataDir(root)).unlock()
  })

  it('names a directory that cannot be used', async () => {
    await writeFile(join(root, 'file'), '')
    await expect(openDataDir(join(root, 'file', 'below'))).rejects.toMatchObject({ code: 'data_dir_unusable' })
  })

  it('names one whose path is longer than SQLite opens files at', async () => {
    const path = join(root, ...Array.from({ length: 4 }, () => 'd'.repeat(120)))
    await expect(openDataDir(path)).rejects.toMatchObject({
      code: 'data_dir_unusable',
      message: expect.stringContaining(`has ${path.length} bytes, and SQLite`),
    })
    expect(await readdir(root)).toEqual([])
    // the longest one works: its database takes a write
    const longest = path.slice(0, 511 - '/trainyard.sqlite3-journal'.length)
    const dataDir = await openDataDir(longest)
    await (await openDatabase(dataDir.databasePath)).close()
    dataDir.unlock()
  })

  it.skipIf(!existsSync('/proc/self'))('names one that can never be made, instead of trying for ever', async () => {
    const path = '/proc/trainyard/data'
    const unusable = { code: 'data_dir_unusable', message: `data directory "${path}" cannot be written` }
    await expect(openDataDir(path)).rejects.toMatchObject(unusable)
    await writeFile(join(root, 'backup.tar'), '')
    await expect(restoreBackup(join(root, 'backup.tar'), path)).rejects.toMatchObject(unusable)
  })
})

describe('blobs', () => {
  let blobs: LocalBlobs
  beforeEach(async () => {
    const dataDir = await openDataDir(root)
    dataDir.unlock()
    blobs = await createLocalBlobs(dataDir.blobsPath)
  })

  async function* bytes(...parts: string[]): AsyncGenerator<Uint8Array> {
    for (const part of parts) yield Buffer.from(part)
  }

  it('are found by content and stored once', async () => {
    const a = await blobs.put(bytes('ab', 'c'))
    const b = await blobs.put(bytes('abc'))
    expect(a).toEqual({ sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', sizeBytes: 3 })
    expect(b).toEqual(a)
    expect(await readFile(blobs.pathOf(a.sha256), 'utf8')).toBe('abc')
  })

  it('leave nothing behind when the digest differs, the size is exceeded, or the source fails', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half')
      throw new Error('cut off')
    }
    await expect(blobs.put(bytes('abc'), { expectedSha256: '0'.repeat(64) })).rejects.toMatchObject({
      code: 'digest_mismatch',
    })
    await expect(blobs.put(bytes('abc', 'def'), { maxBytes: 5 })).rejects.toMatchObject({ code: 'request_too_large' })
    await expect(blobs.put(broken())).rejects.toThrow('cut off')
    expect(await readdir(join(root, 'blobs/incoming'))).toEqual([])
    expect(await readdir(join(root, 'blobs/sha256'))).toEqual([])
  })

  it('forget what a crash left half-written', async () => {
    await writeFile(join(root, 'blobs/incoming/1-1'), 'torn')
    await createLocalBlobs(join(root, 'blobs'))
    expect(await readdir(join(root, 'blobs/incoming'))).toEqual([])
  })

  it('never build a path from anything but a digest', () => {
    expect(() => blobs.pathOf('../../etc/passwd')).toThrow(/64 hex digits/)
  })
})

describe('database', () => {
  it('runs in write-ahead mode with full sync, and closes into one clean file', async () => {
    const path = join(root, 'db.sqlite3')
    const database = await openDatabase(path)
    await createApiKey(database.db, systemIds, 'local')
    await database.close()
    expect((await readdir(root)).sort()).toEqual(['db.sqlite3'])
  })

  it('migrates once and keeps its rows', async () => {
    const path = join(root, 'db.sqlite3')
    const first = await openDatabase(path)
    const key = await createApiKey(first.db, systemIds, 'local')
    await first.close()
    const second = await openDatabase(path)
    expect(await findApiKey(second.db, key)).toMatchObject({ entity: 'local' })
    expect(await findApiKey(second.db, `${key}x`)).toBeNull()
    await second.close()
    expect((await readFile(path)).includes(key), 'the key itself must not be in the file').toBe(false)
  })

  it('refuses a file that is no database, and leaves it as it is', async () => {
    const path = join(root, 'db.sqlite3')
    await writeFile(path, 'this is not a database, but text of some length '.repeat(40))
    const before = await stat(path)
    await expect(openDatabase(path)).rejects.toMatchObject({ code: 'database_unreadable' })
    expect((await stat(path)).size).toBe(before.size)
  })

  it('refuses a database of a newer version', async () => {
    const path = join(root, 'db.sqlite3')
    const first = await openDatabase(path)
    await first.db
      .insertInto('kysely_migration' as never)
      .values({ name: '9999-later', timestamp: '2030-01-01' } as never)
      .execute()
    await first.close()
    await expect(openDatabase(path)).rejects.toMatchObject({ code: 'database_newer' })
  })
})
