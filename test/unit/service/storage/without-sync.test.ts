/**
 * Commits that do not wait for the disk: for one writer, and for nobody else.
 */
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type DatabaseHandle, withoutSync } from '#service/storage/database.js'
import { createJobFixture, type JobFixture } from '../../../support/service/job-fixture.js'

let fixture: JobFixture
beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

const NORMAL = 1
const FULL = 2

async function level(db: DatabaseHandle): Promise<number | undefined> {
  return (await sql<{ synchronous: number }>`pragma synchronous`.execute(db)).rows[0]?.synchronous
}

test('lasts as long as the write', async () => {
  const during = await withoutSync(fixture.db, level)
  expect([during, await level(fixture.db)]).toEqual([NORMAL, FULL])
})

test('ends with a write that fails', async () => {
  const failing = withoutSync(fixture.db, () => Promise.reject(new Error('no')))
  await expect(failing).rejects.toThrow('no')
  expect(await level(fixture.db)).toBe(FULL)
})

test('ends with a transaction that was left open, which is undone', async () => {
  const failing = withoutSync(fixture.db, async (connection) => {
    await sql`begin`.execute(connection)
    await sql`create table left_open (x)`.execute(connection)
    throw new Error('no')
  })
  await expect(failing).rejects.toThrow('no')
  expect(await level(fixture.db)).toBe(FULL)
  const left = sql`select name from sqlite_master where name = 'left_open'`.execute(fixture.db)
  expect((await left).rows).toEqual([])
})

test('no other write gets in between', async () => {
  const seen: (number | undefined)[] = []
  const slow = withoutSync(fixture.db, async (connection) => {
    await connection.transaction().execute(async () => {
      await new Promise((resolve) => setImmediate(resolve))
    })
  })
  const other = fixture.db.connection().execute(async (connection) => seen.push(await level(connection)))
  await Promise.all([slow, other])
  expect(seen).toEqual([FULL])
})
