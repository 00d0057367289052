/**
 * Statements that are compiled once, and whose turn at the connection it is.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { inTransaction } from '#service/storage/in-transaction.js'
import { openSqlite, StatementCache } from '#service/storage/sqlite.js'
import { openDatabase } from '../../../support/service/with-plugins.js'

describe('a statement', () => {
  test('is compiled once, also among many others lately', () => {
    const statements = new StatementCache(openSqlite(':memory:'))
    const first = statements.prepare('select 1')
    for (let i = 0; i < 200; i++) statements.prepare(`select ${i}, 2`)
    expect(statements.prepare('select 1')).toBe(first)
    for (let i = 0; i < 300; i++) statements.prepare(`select ${i}, 3`)
    expect(statements.prepare('select 1')).not.toBe(first)
    statements.close()
  })

  test('whose rows are being read runs beside itself', () => {
    const sqlite = openSqlite(':memory:')
    sqlite.exec('create table t (x); insert into t values (1), (2)')
    const statements = new StatementCache(sqlite)
    const inner = () => statements.prepare('select x from t').pluck().all()
    const seen = Array.from(statements.prepare('select x from t').pluck().iterate(), () => inner())
    expect(seen).toEqual([
      [1, 2],
      [1, 2],
    ])
    statements.close()
  })

  test('sees columns that were added since', () => {
    const sqlite = openSqlite(':memory:')
    sqlite.exec('create table t (x); insert into t values (1)')
    const statements = new StatementCache(sqlite)
    expect(statements.prepare('select * from t').all()).toEqual([{ x: 1 }])
    sqlite.exec('alter table t add column y default 7')
    statements.clear()
    expect(statements.prepare('select * from t').all()).toEqual([{ x: 1, y: 7 }])
    statements.close()
  })
})

describe('the connection', () => {
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-statements-'))
  })
  afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

  test('is given to those who wait in their order, also behind one that fails', async () => {
    const { db, close } = await openDatabase(join(directory, 'db.sqlite3'))
    const order: number[] = []
    const all = Array.from({ length: 200 }, async (_, i) => {
      const query = i % 7 === 3 ? sql`select broken from nowhere` : sql`select ${i}`
      await query.execute(db).catch(() => undefined)
      order.push(i)
    })
    await Promise.all(all)
    expect(order).toEqual(Array.from({ length: 200 }, (_, i) => i))
    // a transaction keeps it until it ends
    const seen: string[] = []
    await Promise.all([
      inTransaction(db, async (transaction) => {
        for (let i = 0; i < 3; i++) {
          await sql`select 1`.execute(transaction)
          seen.push('inside')
        }
      }),
      sql`select 2`.execute(db).then(() => seen.push('behind')),
    ])
    expect(seen).toEqual(['inside', 'inside', 'inside', 'behind'])
    await close()
  })
})
