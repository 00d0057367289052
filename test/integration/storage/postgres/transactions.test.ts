/**
 * Transactions of one server on PostgreSQL: those that wait for each other go together, behind one commit, and end as if each had gone alone.
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { countRetries, inTransaction } from '#service/storage/in-transaction.js'
import { openPostgres } from '#service/storage/postgres/open-postgres.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'

describe.skipIf(!hasPostgres())(hasPostgres() ? 'transactions of one server on PostgreSQL' : NO_POSTGRES, () => {
  let postgres: LocalPostgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())

  async function open(address: string, isBeside = false): Promise<DatabaseHandle> {
    const opened = await openPostgres(address, { maxConnections: 4, isBeside })
    onTestFinished(() => opened.close())
    return opened.db
  }

  const openOne = async () => open(await postgres.createDatabase())

  const put = (db: Database, id: string, value = '') => db.insertInto('health_probes').values({ id, value }).execute()
  const stored = async (db: Database) =>
    (await db.selectFrom('health_probes').select('id').orderBy('id').execute()).map(({ id }) => id)
  /** The number of the transaction, the same behind each of its savepoints. */
  async function numberOf(db: Database): Promise<string> {
    const { rows } = await sql<{ number: string }>`select pg_current_xact_id()::text as number`.execute(db)
    return String(rows[0]?.number)
  }

  /** While it is held, actions wait for each other. */
  function hold(db: DatabaseHandle): () => void {
    const { promise, resolve } = createDeferred<void>()
    void inTransaction(db, () => promise)
    return resolve
  }

  test('actions that wait go together, in their order; one that throws undoes nothing but its own', async () => {
    const db = await openOne()
    const go = hold(db)
    const seen: string[][] = []
    const add = (id: string) =>
      inTransaction(db, async (transaction) => {
        await put(transaction, id)
        seen.push(await stored(transaction))
        return numberOf(transaction)
      })
    const first = add('a')
    const thrown = inTransaction(db, async (transaction) => {
      await put(transaction, 'b')
      throw new Error('on purpose')
    })
    const atOnce = inTransaction(db, () => Promise.reject(new Error('before any statement')))
    const taken = add('a')
    const second = add('c')
    const last = inTransaction(db, async (transaction) => {
      await put(transaction, 'd')
      throw new Error('the last one')
    })
    const ends = Promise.allSettled([first, thrown, atOnce, taken, second, last])
    go()
    const [one, two, three, four, five, six] = await ends
    expect([two, three, six].map((end) => end?.status === 'rejected' && (end.reason as Error).message)).toEqual([
      'on purpose',
      'before any statement',
      'the last one',
    ])
    expect(four).toMatchObject({ status: 'rejected', reason: { code: '23505' } })
    expect(one).toEqual(five)
    expect(await stored(db)).toEqual(['a', 'c'])
    expect(seen).toEqual([['a'], ['a', 'c']])
  })

  test('what they add up is right beside another server that adds to the same', async () => {
    const address = await postgres.createDatabase()
    const [db, other] = [await open(address), await open(address, true)]
    await put(db, 'count', '0')
    const add = async (transaction: Database) => {
      const { value } = await transaction.selectFrom('health_probes').select('value').executeTakeFirstOrThrow()
      await transaction
        .updateTable('health_probes')
        .set({ value: String(Number(value) + 1) })
        .execute()
    }
    const go = hold(db)
    const together = Array.from({ length: 20 }, () => inTransaction(db, add))
    const racing = Array.from({ length: 20 }, () => inTransaction(other, add))
    go()
    await Promise.all([...together, ...racing])
    const { value } = await db.selectFrom('health_probes').select('value').executeTakeFirstOrThrow()
    expect(value).toBe('40')
  })

  test('a conflict of one of them is that of all, and each is done once in the end', async () => {
    const address = await postgres.createDatabase()
    const [db, other] = [await open(address), await open(address, true)]
    await put(db, 'count', '0')
    const go = hold(db)
    let runs = 0
    const first = inTransaction(db, (transaction) => put(transaction, 'beside'))
    const second = inTransaction(db, async (transaction) => {
      runs += 1
      await stored(transaction)
      if (runs === 1)
        await inTransaction(other, (beside) => beside.updateTable('health_probes').set({ value: '1' }).execute())
      await transaction.updateTable('health_probes').set({ value: '2' }).where('id', '=', 'count').execute()
    })
    go()
    await Promise.all([first, second])
    expect(await stored(db)).toEqual(['beside', 'count'])
    expect([runs, countRetries(db)]).toEqual([2, 1])
  })

  test('an action that swallows the failure of a statement is told so, alone and among others', async () => {
    const db = await openOne()
    await put(db, 'a')
    const swallow = () =>
      inTransaction(db, async (transaction) => {
        await put(transaction, 'b')
        await put(transaction, 'a').catch(() => undefined)
      })
    await expect(swallow()).rejects.toThrow('went on as if it had not')
    const go = hold(db)
    const [swallowed, sound] = [swallow(), inTransaction(db, (transaction) => put(transaction, 'c'))]
    const ends = Promise.allSettled([swallowed, sound])
    go()
    expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect(await stored(db)).toEqual(['a', 'c'])
  })

  test('one whose commit is refused for what it did keeps no other from being committed', async () => {
    const db = await openOne()
    await sql`create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'refused at the commit'; end $$`.execute(db)
    await sql`create constraint trigger refuses after insert on health_probes deferrable initially deferred
      for each row when (new.id = 'bad') execute function refuse()`.execute(db)
    const go = hold(db)
    const ends = Promise.allSettled(
      ['a', 'bad', 'b'].map((id) => inTransaction(db, (transaction) => put(transaction, id))),
    )
    go()
    expect((await ends).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await stored(db)).toEqual(['a', 'b'])
  })

  test('a connection that breaks among them fails all of them, and none is done', async () => {
    const address = await postgres.createDatabase()
    const db = await open(address)
    const go = hold(db)
    const first = inTransaction(db, (transaction) => put(transaction, 'a'))
    const second = inTransaction(db, async (transaction) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(transaction)
      await postgres.query(address, `select pg_terminate_backend(${rows[0]?.pid})`)
      await put(transaction, 'b')
    })
    const third = inTransaction(db, (transaction) => put(transaction, 'c'))
    const ends = Promise.allSettled([first, second, third])
    go()
    for (const end of await ends)
      expect(end).toMatchObject({ status: 'rejected', reason: { code: 'database_unavailable' } })
    expect(await stored(db)).toEqual([])
  })

  test('statements that come again are prepared, those with ever other texts are not', async () => {
    const db = await openOne()
    const prepared = (connection: Database) =>
      sql<{ n: number }>`select count(*) as n from pg_prepared_statements`.execute(connection)
    await db.connection().execute(async (connection) => {
      for (let length = 1; length <= 40; length += 1) {
        const ids = Array.from({ length }, (_, index) => `${index}`)
        await connection.selectFrom('health_probes').select('id').where('id', 'in', ids).execute()
      }
      expect((await prepared(connection)).rows).toEqual([{ n: 0 }])
      for (let time = 0; time < 40; time += 1) await stored(connection)
      expect((await prepared(connection)).rows).toEqual([{ n: 1 }])
    })
  })
})
