/**
 * Which servers work with the database: each has a row and says by the database's clock that it lives; one that stops saying so is gone.
 */
import { type Database, databaseNowMs } from '../database.js'

export interface ServerFacts {
  readonly id: string
  /** Where others find it; null: not known. */
  readonly url: string | null
  readonly version: string
}

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

/** Those that live, oldest first. */
export async function listServers(db: Database): Promise<readonly ServerFacts[]> {
  return db
    .selectFrom('servers')
    .select(['id', 'url', 'version'])
    .where('lease_expires_at_ms', '>', databaseNowMs)
    .orderBy('started_at_ms')
    .orderBy('id')
    .execute()
}

export async function forgetServers(db: Database): Promise<void> {
  await db
    .deleteFrom('servers')
    .where((e) => e('lease_expires_at_ms', '<', e(databaseNowMs, '-', KEEP_MS)))
    .execute()
}
