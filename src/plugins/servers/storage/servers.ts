/**
 * A server's row, by which the others know that it lives.
 */
import { type Database, databaseNowMs } from '#service/storage/database.js'
import type { ServerFacts } from '#service/storage/upkeep/servers.js'

/** Rows of servers that are gone are kept so long, for whoever looks after what they had. */
const KEEP_MS = 86_400_000

/** It lives, and will be thought alive for so long. */
export async function renewServer(db: Database, { id, url, version }: ServerFacts, leaseMs: number): Promise<void> {
  await db
    .insertInto('servers')
    .values((e) => ({
      ...{ id, url, version, started_at_ms: databaseNowMs },
      lease_expires_at_ms: e(databaseNowMs, '+', leaseMs),
    }))
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((e) => ({
        url: e.ref('excluded.url'),
        version: e.ref('excluded.version'),
        lease_expires_at_ms: e.ref('excluded.lease_expires_at_ms'),
      })),
    )
    .execute()
}

/** It ends: nobody waits for its lease. */
export async function deleteServer(db: Database, id: string): Promise<void> {
  await db.deleteFrom('servers').where('id', '=', id).execute()
}

/** Those that are gone for long, and whose work was looked after. */
export async function forgetServers(db: Database): Promise<void> {
  await db
    .deleteFrom('servers')
    .where((e) => e('lease_expires_at_ms', '<', e(databaseNowMs, '-', KEEP_MS)))
    .execute()
}
