/**
 * Transactions on a database that several servers share: serializable, and repeated when the database asks for it.
 *
 * Each server runs one at a time, as in SQLite. Side by side most of them would conflict in the same rows: of 64
 * creates at once each was repeated seven times, and one in fourteen failed. Actions that arrive meanwhile share the
 * next transaction. Each has its own savepoint, so a failed one undoes only itself, and all share one commit, so the
 * disk is waited for once. An action sees the changes of those before it, and is told that it is done when all are
 * committed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ControlledTransaction, type Kysely, type KyselyPlugin, sql, type Transaction } from 'kysely'
import { AppError } from '#base/errors/errors.js'
import { createRng, randomSeed } from '#base/util/rng.js'
import type { Database } from '#service/storage/database.js'
import type { SharedTransactions } from '#service/storage/in-transaction.js'
import type { Schema } from '#service/storage/schema.js'
import { databaseBusy, isConflict, sqlStateOf } from './errors.js'

type Action = (transaction: Transaction<Schema>) => Promise<unknown>
type Outcome = { readonly value: unknown } | { readonly error: unknown }
interface Waiting {
  readonly action: Action
  settle(outcome: Outcome): void
}

/** More behind one commit would save little, and let the first of them wait. */
const MOST_TOGETHER = 32
/** How often actions go together before each goes alone, and meets others in fewer rows. */
const TRIES_TOGETHER = 3
/** After so many a request is better told to come back. */
const MOST_TRIES = 20
/** The first wait is random below it; it doubles up to `MOST_WAIT_MS`. */
const FIRST_WAIT_MS = 4
const MOST_WAIT_MS = 250
const SAVEPOINT = 'action'

export function createSharedTransactions(db: Kysely<Schema>): SharedTransactions {
  const rng = createRng(randomSeed())
  const waiting: Waiting[] = []
  let isRunning = false
  let retries = 0

  async function runWaiting(): Promise<void> {
    isRunning = true
    while (waiting.length > 0) {
      const next = waiting.splice(0, MOST_TOGETHER)
      const outcomes = next.length > 1 ? await tryTogether(next) : null
      if (outcomes === null) for (const { action, settle } of next) settle(await tryAlone(action))
      else for (const [index, outcome] of outcomes.entries()) next[index]?.settle(outcome)
    }
    isRunning = false
  }

  async function pause(tries: number): Promise<void> {
    retries += 1
    await sleep(rng.uniform() * Math.min(FIRST_WAIT_MS * 2 ** (tries - 1), MOST_WAIT_MS))
  }

  async function tryAlone(action: Action): Promise<Outcome> {
    for (let tries = 1; ; tries += 1) {
      try {
        return { value: await db.transaction().setIsolationLevel('serializable').execute(action) }
      } catch (error) {
        if (!isConflict(error)) return { error }
        if (tries === MOST_TRIES) return { error: databaseBusy(error) }
        await pause(tries)
      }
    }
  }

  /** @returns what came of each; null: nothing is changed, and each has to go alone */
  async function tryTogether(actions: readonly Waiting[]): Promise<readonly Outcome[] | null> {
    for (let tries = 1; tries <= TRIES_TOGETHER; tries += 1) {
      try {
        return await goTogether(db, actions)
      } catch (error) {
        // the database is away, or what came of the commit is not known: that is so for all of them
        if (error instanceof AppError) return actions.map(() => ({ error }))
        // else the commit was refused for what one of them did
        if (!isConflict(error)) return null
        await pause(tries)
      }
    }
    return null
  }

  return {
    run: <T>(action: (transaction: Transaction<Schema>) => Promise<T>) =>
      new Promise<T>((resolve, reject) => {
        const settle = (outcome: Outcome): void =>
          'error' in outcome ? reject(outcome.error) : resolve(outcome.value as T)
        waiting.push({ action, settle })
        if (!isRunning) void runWaiting()
      }),
    retries: () => retries,
    readId: readTransactionId,
    wasCommitted: (id) => wasCommitted(db, id),
  }
}

async function goTogether(db: Kysely<Schema>, actions: readonly Waiting[]): Promise<readonly Outcome[]> {
  const transaction = await db.startTransaction().setIsolationLevel('serializable').execute()
  try {
    const outcomes: Outcome[] = []
    for (const { action } of actions) outcomes.push(await behindSavepoint(transaction, action))
    await transaction.commit().execute()
    return outcomes
  } catch (error) {
    await transaction.rollback().execute()
    throw error
  }
}

async function behindSavepoint(transaction: ControlledTransaction<Schema>, action: Action): Promise<Outcome> {
  const own = await transaction.savepoint(SAVEPOINT).execute()
  const fence = createFence()
  try {
    const value = await action(own.withPlugin(fence))
    fence.close()
    await own.releaseSavepoint(SAVEPOINT).execute()
    return { value }
  } catch (error) {
    fence.close()
    // nothing of the transaction can be kept then
    if (isConflict(error)) throw error
    await own.rollbackToSavepoint(SAVEPOINT).execute()
    return { error }
  }
}

/**
 * Refuses an action's statements once it has ended, as its own transaction would: what it began and did not wait for would be
 * committed with those behind it.
 */
function createFence(): KyselyPlugin & { close(): void } {
  let isOver = false
  return {
    close: () => {
      isOver = true
    },
    transformQuery: ({ node }) => {
      if (isOver) throw new Error('a statement came when its transaction was over')
      return node
    },
    transformResult: async ({ result }) => result,
  }
}

/** The number of the transaction that runs. */
async function readTransactionId(transaction: Database): Promise<string | null> {
  const { rows } = await sql<{ id: string }>`select pg_current_xact_id()::text as id`.execute(transaction)
  return rows[0]?.id ?? null
}

/**
 * Whether a transaction was committed whose connection was lost after the commit was sent; null: it is not over. PostgreSQL keeps
 * the outcome under the transaction's number.
 *
 * Source: PostgreSQL's manual, 9.27.8, "Transaction ID and Snapshot Information Functions".
 */
async function wasCommitted(db: Database, id: string): Promise<boolean | null> {
  try {
    const { rows } = await sql<{ status: string | null }>`select pg_xact_status(${id}::xid8) as status`.execute(db)
    const status = rows[0]?.status
    // forgotten: it is so old that it was over long ago
    return status === 'in progress' ? null : status !== 'aborted'
  } catch (error) {
    // a number that this database has not given yet: it is one that took over from another before that had told it
    if (sqlStateOf(error) === '22023') return false
    throw error
  }
}
