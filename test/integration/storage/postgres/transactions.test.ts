/**
 * Transactions of one server on PostgreSQL: those that wait for each other go together, behind one commit, and end as if each had gone alone.
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { countRetries, inTransaction } from '#service/storage/in-transaction.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import { openPostgres } from '../../../support/service/with-plugins.js'

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

  async function breakConnection(address: string, db: Database): Promise<void> {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
    await postgres.query(address, `select pg_terminate_backend(${rows[0]?.pid})`)
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

  test('what an action began and did not wait for is not done when it has ended', async () => {
    const db = await openOne()
    await put(db, 'a')
    const straggle = () => {
      const later = createDeferred<unknown>()
      const action = (transaction: Database) => {
        const straggler = async () => {
          await put(transaction, 'b').catch(() => undefined)
          await put(transaction, 'late')
        }
        const failing = put(transaction, 'a')
        const straggling = straggler()
        straggling.then(later.resolve, later.resolve)
        return Promise.all([failing, straggling])
      }
      return { done: inTransaction(db, action), late: later.promise }
    }
    const go = hold(db)
    const { done, late } = straggle()
    const others = ['c', 'd'].map((id) => inTransaction(db, (transaction) => put(transaction, id)))
    const ends = Promise.allSettled([done, ...others])
    go()
    const [failed, ...sound] = await ends
    expect(failed).toMatchObject({ status: 'rejected', reason: { code: '23505' } })
    expect(sound.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled'])
    expect(String(await late)).toContain('its transaction was over')
    expect(await stored(db)).toEqual(['a', 'c', 'd'])
  })

  test('a connection that breaks among them fails all of them, and none is done', async () => {
    const address = await postgres.createDatabase()
    const db = await open(address)
    const go = hold(db)
    const first = inTransaction(db, (transaction) => put(transaction, 'a'))
    const second = inTransaction(db, async (transaction) => {
      await breakConnection(address, transaction)
      await put(transaction, 'b')
    })
    let isThirdRun = false
    const third = inTransaction(db, async (transaction) => {
      isThirdRun = true
      await put(transaction, 'c')
    })
    const ends = Promise.allSettled([first, second, third])
    go()
    // no commit was sent: all of them know that nothing is done
    const reason = { code: 'database_unavailable', message: 'the database cannot be reached' }
    for (const end of await ends) expect(end).toMatchObject({ status: 'rejected', reason })
    expect(isThirdRun).toBe(false)
    expect(await stored(db)).toEqual([])
  })

  test('an action alone that swallows the loss of its connection is told that nothing is done', async () => {
    const address = await postgres.createDatabase()
    const db = await open(address)
    const swallowed = inTransaction(db, async (transaction) => {
      await put(transaction, 'a')
      await breakConnection(address, transaction)
      await put(transaction, 'b').catch(() => undefined)
    })
    await expect(swallowed).rejects.toMatchObject({ message: 'the database cannot be reached' })
    expect(await stored(db)).toEqual([])
  })

  test('a transaction knows nothing of what its connection was used for before, and leaves nothing to what comes', async () => {
    const address = await postgres.createDatabase()
    const db = await open(address)
    await put(db, 'a')
    await db.connection().execute(async (connection) => {
      await expect(put(connection, 'a')).rejects.toMatchObject({ code: '23505' })
      await connection.transaction().execute((transaction) => put(transaction, 'b'))
      const undone = connection.transaction().execute(() => Promise.reject(new Error('on purpose')))
      await expect(undone).rejects.toThrow('on purpose')
      await breakConnection(address, connection)
      // a write of its own, whose answer did not come
      await expect(put(connection, 'c')).rejects.toThrow('it may be done all the same')
    })
    await db.connection().execute(async (connection) => {
      await connection.transaction().execute((transaction) => put(transaction, 'd'))
      await breakConnection(address, connection)
      await expect(put(connection, 'e')).rejects.toThrow('it may be done all the same')
    })
    expect(await stored(db)).toEqual(['a', 'b', 'd'])
  })

  test('statements that come again are prepared, those with ever other texts are not', async () => {
    const db = await openOne()
    const prepared = (connection: Database) =>
      // of each migration a row was written, by one that is prepared by now
      sql<{
        n: number
      }>`select count(*) as n from pg_prepared_statements where statement not like '%kysely_migration%'`.execute(
        connection,
      )
    await db.connection().execute(async (connection) => {
      for (let length = 1; length <= 40; length += 1) {
        const ids = Array.from({ length }, (_, index) => `${index}`)
        await connection.selectFrom('health_probes').select('id').where('id', 'in', ids).execute()
      }
      expect((await prepared(connection)).rows).toEqual([{ n: 0 }])
      for (let time = 0; time < 40; time += 1) {
        await connection.selectFrom('health_probes').select('id').where('id', '=', `${time}`).execute()
      }
      expect((await prepared(connection)).rows).toEqual([{ n: 1 }])
      // those that begin and end transactions have no plan to keep
      for (let time = 0; time < 40; time += 1) await connection.transaction().execute(() => Promise.resolve())
      expect((await prepared(connection)).rows).toEqual([{ n: 1 }])
    })
  })
})
