/**
 * Secrets this server made for itself; they outlive restarts and never leave it.
 */
import type { Database } from '#service/storage/database.js'
import { wandbTables } from './tables.js'

/** The server's own secret of that name; `fresh` becomes it when there is none. */
export async function ensureSecret(db: Database, name: string, fresh: string): Promise<string> {
  await wandbTables(db)
    .insertInto('secrets')
    .values({ name, value: fresh })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const row = await wandbTables(db)
    .selectFrom('secrets')
    .select('value')
    .where('name', '=', name)
    .executeTakeFirstOrThrow()
  return row.value
}
