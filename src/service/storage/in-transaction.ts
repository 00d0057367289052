/**
 * The only way to open a transaction. Its action must be repeatable: a database that several connections share may
 * refuse a commit, and then the action runs again. So an action changes nothing but rows, and its result is used only
 * afterwards.
 *
 * {@link rehearseTransactions} checks this: each action runs once, is rolled back, and runs again.
 */
import type { Transaction } from 'kysely'
import type { Database, DatabaseHandle } from './database.js'
import type { Schema } from './schema.js'

/** Transactions of a database that several connections share. */
export interface SharedTransactions {
  /** @throws what `action` throws; {AppError} `database_busy` */
  run<T>(action: (transaction: Transaction<Schema>) => Promise<T>): Promise<T>
  /** How often transactions were repeated, because others wrote or read the same. */
  retries(): number
  /** By which the database knows the transaction later. */
  readId(transaction: Database): Promise<string | null>
  /** Whether a transaction was committed; null: it is not over. */
  wasCommitted(id: string): Promise<boolean | null>
}

const rehearsed = new WeakSet<DatabaseHandle>()
/** Databases with several connections. */
const shared = new WeakMap<DatabaseHandle, SharedTransactions>()

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

/** From now on actions on `db` run beside those of other servers: in an order that only a retry keeps. */
export function shareTransactions(db: DatabaseHandle, transactions: SharedTransactions): void {
  shared.set(db, transactions)
}

/** How often transactions were repeated, because others wrote or read the same; null where none runs beside another. */
export function countRetries(db: DatabaseHandle): number | null {
  return shared.get(db)?.retries() ?? null
}

/**
 * By which {@link wasCommitted} knows a transaction whose commit was sent and whose connection was lost before the answer; null for
 * a file, which has no connection to lose.
 */
export async function readTransactionId(db: DatabaseHandle, transaction: Database): Promise<string | null> {
  return (await shared.get(db)?.readId(transaction)) ?? null
}

/** Whether a transaction that {@link readTransactionId} named was committed; null: it is not over. */
export async function wasCommitted(db: DatabaseHandle, id: string): Promise<boolean | null> {
  const transactions = shared.get(db)
  return transactions === undefined ? false : transactions.wasCommitted(id)
}

async function begin<T>(db: DatabaseHandle, action: (transaction: Transaction<Schema>) => Promise<T>): Promise<T> {
  const transactions = shared.get(db)
  return transactions === undefined ? db.transaction().execute(action) : transactions.run(action)
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
