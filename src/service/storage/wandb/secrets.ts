/**
 * Secrets this server made for itself; they outlive restarts and never leave it.
 */
import type { Database } from '../database.js'

/** The server's own secret of that name; `fresh` becomes it when there is none. */
export async function ensureSecret(db: Database, name: string, fresh: string): Promise<string> {
  await db
    .insertInto('secrets')
    .values({ name, value: fresh })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const row = await db.selectFrom('secrets').select('value').where('name', '=', name).executeTakeFirstOrThrow()
  return row.value
}
