/**
 * Data directories of earlier versions, as they were written then: `test/fixtures/databases/<newest migration>.sql`. Each opens,
 * keeps its rows and becomes what a new one is. `UPDATE_GOLDEN=1` writes the fixture of the newest schema if there is none; one
 * that is there never changes.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findApiKey } from '#service/storage/api-keys.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { listEvents } from '#service/storage/events.js'
import { findModelByName } from '#service/storage/models.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { findJob } from '#service/storage/training-jobs.js'
import { listReferencedBlobs } from '#service/storage/upkeep/blob-references.js'
import { dumpDatabase, FIXTURE, writeFixtureRows } from '../../../support/service/database-fixture.js'
import { MIGRATIONS, openDatabase } from '../../../support/service/with-plugins.js'

const FOLDER = join(import.meta.dirname, '../../../fixtures/databases')
const NEWEST = Object.keys(MIGRATIONS).sort().at(-1) ?? ''

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-fixtures-'))
})
afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

const newest = join(FOLDER, `${NEWEST}.sql`)
if (process.env['UPDATE_GOLDEN'] === '1' && !existsSync(newest)) {
  const path = join(await mkdtemp(join(tmpdir(), 'trainyard-fixture-')), 'db.sqlite3')
  const { db, close } = await openDatabase(path)
  await writeFixtureRows(db)
  await close()
  writeFileSync(newest, dumpDatabase(path))
}
const files = readdirSync(FOLDER).filter((name) => name.endsWith('.sql'))

function schemaOf(path: string): unknown {
  const sqlite = openSqlite(path, { readonly: true })
  const rows = sqlite.prepare('select type, name from sqlite_master order by type, name').all()
  sqlite.close()
  return rows
}

describe('a database that an earlier version wrote', () => {
  test('is kept of every schema that was published', () => {
    expect(files).toContain('0006-keys-and-usage.sql')
  })

  test.each(files)('%s: opens with everything that was in it', async (name) => {
    const path = join(directory, 'old.sqlite3')
    const sqlite = openSqlite(path)
    sqlite.exec(readFileSync(join(FOLDER, name), 'utf8'))
    sqlite.close()
    const { db, close } = await openDatabase(path)
    const model = await findModelByName(db, 'local', 'games', 'chess')
    expect(model).toMatchObject({ id: FIXTURE.modelId, step: 1, baseModel: 'trainyard/spark' })
    expect(await findCheckpoint(db, FIXTURE.modelId, 'latest')).toMatchObject({
      step: 1,
      files: { length: 3 },
      metrics: { 'loss/train': 0.5 },
    })
    expect(await findJob(db, FIXTURE.jobId)).toMatchObject({ status: 'completed', step: 1, project: 'games' })
    expect(await findJob(db, FIXTURE.waitingId)).toMatchObject({ status: 'queued', inputSha256: FIXTURE.inputSha256 })
    const events = await listEvents(db, FIXTURE.jobId, { limit: 100 })
    expect(events.items.map((event) => event.type)).toEqual(['training_started', 'gradient_step', 'training_ended'])
    expect(await findApiKey(db, FIXTURE.key)).toMatchObject({ entity: 'local', scope: 'admin' })
    expect((await listReferencedBlobs(db)).size).toBe(6)
    await close()
    await (await openDatabase(join(directory, 'new.sqlite3'))).close()
    expect(schemaOf(path)).toEqual(schemaOf(join(directory, 'new.sqlite3')))
    const checked = openSqlite(path, { readonly: true })
    expect(checked.pragma('foreign_key_check')).toEqual([])
    checked.close()
  })
})
