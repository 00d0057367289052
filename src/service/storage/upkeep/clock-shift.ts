/**
 * Corrects rows when the wall clock was set back, because their times then lie in the future. A clock that is set
 * forward needs nothing: waits only end early.
 *
 * Lists are ordered by ids, which never go back (`listNewestIds`), so this does not concern order.
 */
import { sql } from 'kysely'
import { type Database, databaseNowMs } from '../database.js'
import { partsOf } from '../schema-part.js'

/** Moves what waits for a time, in a running server whose clock was set back by `byMs`: the waits stay as long as they were. */
export async function moveWaits(db: Database, byMs: number): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      retry_at_ms: e('retry_at_ms', '-', byMs),
      lease_expires_at_ms: e('lease_expires_at_ms', '-', byMs),
      heartbeat_at_ms: e('heartbeat_at_ms', '-', byMs),
    }))
    .where('status', 'in', ['queued', 'running'])
    .execute()
  // a code or a ticket would be worth something for as much longer
  await db
    .updateTable('one_time_secrets')
    .set((e) => ({ expires_at_ms: e('expires_at_ms', '-', byMs) }))
    .execute()
  for (const part of partsOf(db)) await part.moveWaits?.(db, byMs)
}

/**
 * At start, where nobody knows by how much the clock differs from the last process's: waits of rows that were written in the
 * future end now.
 */
export async function shortenWaits(db: Database): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set({ retry_at_ms: null })
    .where('status', '=', 'queued')
    .where('heartbeat_at_ms', '>', databaseNowMs)
    .execute()
}

/** The greatest id of every table whose order or cursors go by ids, without the prefix some have. */
export async function listNewestIds(db: Database): Promise<readonly string[]> {
  const tables = ['api_keys', 'models', 'checkpoints', 'training_jobs', 'events', 'trajectory_logs', 'files'] as const
  const added = partsOf(db).flatMap((part) =>
    Object.entries(part.tables).flatMap(([table, { isListedById }]) => (isListedById === true ? [table] : [])),
  )
  const newest: string[] = []
  for (const table of [...tables, ...added]) {
    const { rows } = await sql<{ id: string }>`select id from ${sql.table(table)} order by id desc limit 1`.execute(db)
    for (const { id } of rows) newest.push(id.slice(-36))
  }
  return newest
}
