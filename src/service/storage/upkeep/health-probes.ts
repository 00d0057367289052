/**
 * Checks that the database really works: a row is written, read back and deleted.
 */
import type { Database } from '../database.js'

/** Reads what costs nothing. @returns how many probes there are: none, but while one is checked */
export async function readProbe(db: Database): Promise<number> {
  return (await db.selectFrom('health_probes').select('id').limit(1).execute()).length
}

/** @returns what was read back for `probe.id`; null if the row was not there */
export async function writeAndReadProbe(
  db: Database,
  probe: { readonly id: string; readonly value: string },
): Promise<string | null> {
  await db.insertInto('health_probes').values({ id: probe.id, value: probe.value }).execute()
  const row = await db.selectFrom('health_probes').select('value').where('id', '=', probe.id).executeTakeFirst()
  await db.deleteFrom('health_probes').where('id', '=', probe.id).execute()
  return row?.value ?? null
}
