/**
 * The one way to a transaction. What is done in it must be able to be done again: a database that several connections share may
 * refuse a commit and ask for it once more, so an action changes nothing but rows, and what it returns is used after it.
 *
 * {@link rehearseTransactions} holds that: each action runs once for nothing, is rolled back, and runs again.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import { createRng, randomSeed } from '#base/util/rng.js'
import type { DatabaseHandle } from './database.js'
import { databaseBusy, isConflict } from './postgres/errors.js'
import type { Schema } from './schema.js'

const rehearsed = new WeakSet<DatabaseHandle>()
/**
 * Databases with several connections. Of one process one transaction runs at a time, as in SQLite: beside each other most of them would meet in
 * the same rows and be repeated (of 64 creates at once each one seven times, and one in fourteen in vain). What others write is met rarely.
 */
interface Shared {
  retries: number
  isTaken: boolean
  readonly waiting: (() => void)[]
}
const shared = new WeakMap<DatabaseHandle, Shared>()

/** After so many a request is better told to come back. */
const MOST_TRIES = 20
/** The first wait is random below it; it doubles up to `MOST_WAIT_MS`. */
const FIRST_WAIT_MS = 4
const MOST_WAIT_MS = 250
const rng = createRng(randomSeed())

class Rehearsed extends Error {}

/**
 * Runs `action` in a transaction of its own: all of its rows become visible and durable at once, or none, and as if no other ran beside it.
 *
 * @returns what `action` returns, when it is committed and on the disk
 * @throws what `action` throws, after nothing was changed; {AppError} `database_busy`
 */
export async function inTransaction<T>(
  db: DatabaseHandle,
  action: (transaction: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  if (rehearsed.has(db)) await rehearse(db, action)
  return begin(db, action)
}

/** From now on every action on `db` is done, undone and done again, as after a commit that was refused. */
export function rehearseTransactions(db: DatabaseHandle): void {
  rehearsed.add(db)
}

/** From now on actions on `db` run beside others, on connections of their own: in an order that only a retry keeps. */
export function shareTransactions(db: DatabaseHandle): void {
  shared.set(db, { retries: 0, isTaken: false, waiting: [] })
}

/** How often actions were repeated, because others wrote or read the same; null where none runs beside another. */
export function countRetries(db: DatabaseHandle): number | null {
  return shared.get(db)?.retries ?? null
}

async function begin<T>(db: DatabaseHandle, action: (transaction: Transaction<Schema>) => Promise<T>): Promise<T> {
  const state = shared.get(db)
  if (state === undefined) return db.transaction().execute(action)
  if (state.isTaken) await new Promise<void>((resolve) => state.waiting.push(resolve))
  state.isTaken = true
  try {
    return await tryOften(db, state, action)
  } finally {
    const next = state.waiting.shift()
    if (next === undefined) state.isTaken = false
    else next()
  }
}

async function tryOften<T>(
  db: DatabaseHandle,
  state: Shared,
  action: (transaction: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await db.transaction().setIsolationLevel('serializable').execute(action)
    } catch (error) {
      if (!isConflict(error)) throw error
      if (tries === MOST_TRIES) throw databaseBusy(error)
      state.retries += 1
      await sleep(rng.uniform() * Math.min(FIRST_WAIT_MS * 2 ** (tries - 1), MOST_WAIT_MS))
    }
  }
}

async function rehearse(db: DatabaseHandle, action: (transaction: Transaction<Schema>) => Promise<unknown>) {
  try {
    await begin(db, async (transaction) => {
      await action(transaction)
      throw new Rehearsed()
    })
  } catch (error) {
    // what the action itself refuses is refused by the run that counts
    if (!(error instanceof Rehearsed)) return
  }
}
