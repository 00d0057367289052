/**
 * Checks that the database really works: a row is written, read back and deleted.
 */
import type { Database } from '../database.js'

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
