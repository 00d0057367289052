/**
 * The one way to a transaction. What is done in it must be able to be done again: a database that several servers share may
 * refuse a commit and ask for it once more, so an action changes nothing but rows, and what it returns is used after it.
 *
 * {@link rehearseTransactions} holds that: each action runs once for nothing, is rolled back, and runs again.
 */
import type { Transaction } from 'kysely'
import type { DatabaseHandle } from './database.js'
import type { Schema } from './schema.js'

const rehearsed = new WeakSet<DatabaseHandle>()

class Rehearsed extends Error {}

/**
 * Runs `action` in a transaction of its own: all of its rows become visible and durable at once, or none.
 *
 * @returns what `action` returns, when it is committed and on the disk
 * @throws what `action` throws, after nothing was changed
 */
export async function inTransaction<T>(
  db: DatabaseHandle,
  action: (transaction: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  if (rehearsed.has(db)) await rehearse(db, action)
  return db.transaction().execute(action)
}

/** From now on every action on `db` is done, undone and done again, as after a commit that was refused. */
export function rehearseTransactions(db: DatabaseHandle): void {
  rehearsed.add(db)
}

async function rehearse(db: DatabaseHandle, action: (transaction: Transaction<Schema>) => Promise<unknown>) {
  try {
    await db.transaction().execute(async (transaction) => {
      await action(transaction)
      throw new Rehearsed()
    })
  } catch (error) {
    // what the action itself refuses is refused by the run that counts
    if (!(error instanceof Rehearsed)) return
  }
}
