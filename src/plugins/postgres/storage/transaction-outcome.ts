/**
 * Finds out whether a transaction was committed when the connection was lost after the commit was sent: PostgreSQL
 * keeps the outcome under the transaction's id.
 *
 * Source: PostgreSQL's manual, 9.27.8, "Transaction ID and Snapshot Information Functions".
 */
import { sql } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { sqlStateOf } from './errors.js'

/** The number of the transaction that runs. */
export async function readTransactionId(transaction: Database): Promise<string | null> {
  const { rows } = await sql<{ id: string }>`select pg_current_xact_id()::text as id`.execute(transaction)
  return rows[0]?.id ?? null
}

/** Whether it was committed; null: it is not over. */
export async function wasCommitted(db: Database, id: string): Promise<boolean | null> {
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
