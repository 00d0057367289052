/**
 * Which blobs are deleted, and when: only what this database had and no row names, in two sweeps, after the grace. A real database and
 * real files; the clock is set.
 */
import { mkdtemp, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { createIdSource, timeOfId } from '#base/util/ids.js'
import { type BlobSweeper, createBlobSweeper } from '#service/operations/blob-sweeper.js'
import { createLocalBlobs, type LocalBlobs } from '#service/storage/blobs/local-blobs.js'
import { openDataDir } from '#service/storage/data-dir.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { deleteFileRow, insertFile } from '#service/storage/files.js'
import { blobColumnsOf } from '#service/storage/upkeep/blob-references.js'
import { listRuns } from '#service/storage/upkeep/unnamed-blobs.js'
import { openDatabase } from '../../support/service/with-plugins.js'

const HOUR_MS = 3_600_000
const GRACE_MS = 24 * HOUR_MS

let root: string
let aheadMs: number
let database: OpenDatabase
let blobs: LocalBlobs
let sweeper: BlobSweeper
const clock = { nowMs: () => Date.now() + aheadMs, monotonicMs: () => performance.now() + aheadMs }
const ids = createIdSource({ nowMs: () => Date.now() })

async function open(path = join(root, 'trainyard.sqlite3')): Promise<void> {
  database = await openDatabase(path)
  blobs = await createLocalBlobs(join(root, 'blobs'), clock)
  const logger = createLogger({ level: 'silent' })
  sweeper = createBlobSweeper({ db: database.db, blobs, clock, logger, graceMs: GRACE_MS })
}

/** As a stop and a start of the server. */
async function restart(path?: string): Promise<void> {
  await sweeper.stop()
  await database.close()
  await open(path)
  await sweeper.start(0)
}

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'trainyard-sweeper-'))
  aheadMs = 0
  const dataDir = await openDataDir(root)
  dataDir.unlock()
  await open()
})
afterEach(async () => {
  await sweeper.stop()
  await database.close()
  await rm(root, { recursive: true, force: true, maxRetries: 20 })
})

const put = async (text: string) => (await blobs.put([Buffer.from(text)])).sha256
async function putNamed(text: string): Promise<{ readonly id: string; readonly sha256: string }> {
  const { sha256, sizeBytes } = await blobs.put([Buffer.from(text)])
  const id = `file-${ids.uuid()}`
  await insertFile(database.db, {
    id,
    entity: 'local',
    filename: text,
    purpose: 'fine-tune',
    artifact: null,
    project: null,
    sha256,
    sizeBytes,
    problem: null,
  })
  return { id, sha256 }
}

describe('a blob that was named and is not any more', () => {
  it('is deleted by the second sweep that sees it so, a day after the first', async () => {
    await sweeper.start(0)
    const { id, sha256 } = await putNamed('gone')
    const kept = await putNamed('kept')
    await deleteFileRow(database.db, id)
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 1, foreign: 0 })
    aheadMs = GRACE_MS - HOUR_MS
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 1 })
    aheadMs = GRACE_MS + 1000
    expect(await sweeper.sweep()).toMatchObject({ removed: 1, waiting: 0 })
    expect([await blobs.has(sha256), await blobs.has(kept.sha256)]).toEqual([false, true])
    expect(await database.db.selectFrom('unnamed_blobs').selectAll().execute()).toEqual([])
  })

  it('stays when a first sweep comes however late: two must see it', async () => {
    await sweeper.start(0)
    const { id, sha256 } = await putNamed('late')
    await deleteFileRow(database.db, id)
    aheadMs = 90 * GRACE_MS
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 1 })
    expect(await blobs.has(sha256)).toBe(true)
  })

  it('stays when it is named again, and its day begins anew when it is let go again', async () => {
    await sweeper.start(0)
    const first = await putNamed('again')
    await deleteFileRow(database.db, first.id)
    await sweeper.sweep()
    const second = await putNamed('again')
    aheadMs = 2 * GRACE_MS
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 0 })
    await deleteFileRow(database.db, second.id)
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 1 })
  })

  it('goes also where its file was restored or copied, with another time', async () => {
    const { id, sha256 } = await putNamed('restored')
    // before any server worked with this database, as a restore writes it
    await sweeper.start(0)
    await deleteFileRow(database.db, id)
    await sweeper.sweep()
    aheadMs = GRACE_MS + 1000
    expect((await sweeper.sweep()).removed).toBe(1)
    expect(await blobs.has(sha256)).toBe(false)
  })

  it('goes after minutes, in two sweeps, if it served one job alone', async () => {
    await sweeper.start(0)
    const input = await put('input')
    await sql`insert into training_jobs (id, entity, model_id, kind, status, config, request_digest, input_sha256)
      values ('j', 'local', 'm', 'rl', 'queued', '{}', 'd', ${input})`.execute(database.db)
    await database.db.updateTable('training_jobs').set({ input_sha256: null }).execute()
    aheadMs = 1000
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waitingOfJobs: 1 })
    aheadMs = 60_000
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waitingOfJobs: 1 })
    aheadMs = 200_000
    expect(await sweeper.sweep()).toMatchObject({ removed: 1, waitingOfJobs: 0 })
    // a file with the same bytes has the long grace
    const named = await putNamed('both')
    await database.db.updateTable('training_jobs').set({ input_sha256: named.sha256 }).execute()
    await database.db.updateTable('training_jobs').set({ input_sha256: null }).execute()
    await deleteFileRow(database.db, named.id)
    await sweeper.sweep()
    aheadMs += HOUR_MS
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 1 })
  })
})

describe('a blob that was never named', () => {
  it('goes if it was written while a server worked with this database, also one that a crash ended', async () => {
    await sweeper.start(0)
    const lost = await put('lost in a crash')
    const { id } = await putNamed('the last that the database knows')
    await database.close()
    await open()
    await sweeper.start(timeOfId(id.slice('file-'.length)) ?? 0)
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 1, foreign: 0 })
    aheadMs = GRACE_MS + 1000
    await restart()
    expect(await blobs.has(lost)).toBe(false)
  })

  it('is known also if the system’s tick that it was written in began before the server', async () => {
    await sweeper.start(0)
    const lost = await put('at once')
    const tick = ((await listRuns(database.db))[0]?.startedAtMs ?? 0) - 10
    await utimes(blobs.pathOf(lost), tick / 1000, tick / 1000)
    expect(await sweeper.sweep()).toMatchObject({ waiting: 1, foreign: 0 })
  })

  it('stays for ever if it is older than the database, or from between its runs', async () => {
    const older = await put('from before')
    const past = (Date.now() - 90 * GRACE_MS) / 1000
    await utimes(blobs.pathOf(older), past, past)
    await sweeper.start(0)
    expect(await sweeper.sweep()).toMatchObject({ removed: 0, waiting: 0, foreign: 1 })
    for (const days of [2, 4, 6]) {
      aheadMs = days * GRACE_MS
      await restart()
      expect(await sweeper.sweep()).toMatchObject({ removed: 0, foreign: 1 })
    }
    expect(await blobs.has(older)).toBe(true)
  })

  it('stays if another database was in use meanwhile, and is nobody’s of this one', async () => {
    await sweeper.start(0)
    const ours = await put('ours')
    aheadMs = HOUR_MS
    await restart(join(root, 'other.sqlite3'))
    const theirs = await putNamed('theirs')
    const [now, then] = [clock.nowMs() / 1000, Date.now() / 1000]
    await utimes(blobs.pathOf(theirs.sha256), now, now)
    await utimes(blobs.pathOf(ours), then, then)
    aheadMs = 2 * HOUR_MS
    await restart()
    expect(await sweeper.sweep()).toMatchObject({ waiting: 1, foreign: 1 })
    aheadMs = 3 * GRACE_MS
    expect(await sweeper.sweep()).toMatchObject({ removed: 1, foreign: 1 })
    expect(await blobs.has(theirs.sha256)).toBe(true)
  })
})

it('a blob that this process wrote a moment ago stays, whatever the clock and the notes say', async () => {
  await sweeper.start(0)
  const { id, sha256 } = await putNamed('fresh')
  await deleteFileRow(database.db, id)
  await sweeper.sweep()
  // the wall clock alone is set forward
  const wall = { nowMs: () => Date.now() + 3 * GRACE_MS, monotonicMs: () => performance.now() }
  const here = await createLocalBlobs(join(root, 'blobs'), wall)
  await here.put([Buffer.from('fresh')])
  const impatient = createBlobSweeper({
    db: database.db,
    blobs: here,
    clock: wall,
    logger: createLogger({ level: 'silent' }),
    graceMs: GRACE_MS,
  })
  expect((await impatient.sweep()).removed).toBe(0)
  expect(await here.has(sha256)).toBe(true)
})

it('a stop prepares no sweep, and notes until when it knew the store', async () => {
  const prepared: string[] = []
  const options = { db: database.db, blobs, clock, logger: createLogger({ level: 'silent' }), graceMs: GRACE_MS }
  const beforeSweep = async () => {
    prepared.push('sweep')
    throw new Error('what it would do cannot be done')
  }
  const stopped = createBlobSweeper({ ...options, beforeSweep, beforeEnd: async () => void prepared.push('end') })
  await stopped.start(0)
  aheadMs = HOUR_MS
  await stopped.stop()
  expect(prepared).toEqual(['end'])
  expect((await listRuns(database.db)).at(-1)?.seenAtMs).toBeGreaterThanOrEqual(Date.now() + HOUR_MS - 60_000)
})

it('every column that names a blob notes what it lets go', async () => {
  const { db } = database
  const { rows } = await sql<{ table: string; column: string }>`
    select m.name as "table", c.name as "column" from sqlite_master as m, pragma_table_info(m.name) as c
    where m.type = 'table' and c.name like '%sha256' and m.name <> 'unnamed_blobs'`.execute(db)
  expect(rows.map((row) => `${row.table}.${row.column}`).sort()).toEqual(
    blobColumnsOf(db)
      .map((each) => each.join('.'))
      .sort(),
  )
  const triggers = await sql<{ name: string }>`select name from sqlite_master where type = 'trigger'`.execute(db)
  const names = new Set(triggers.rows.map((row) => row.name))
  for (const [table, column] of blobColumnsOf(db)) {
    expect([names.has(`${table}_${column}_dropped`), names.has(`${table}_${column}_changed`)], table).toEqual([
      true,
      true,
    ])
  }
})
