/**
 * Which servers work with the database: each has a row and says by the database's clock that it lives; one that stops saying so is gone.
 * A server alone has none.
 */
import { type Database, databaseNowMs } from '../database.js'

export interface ServerFacts {
  readonly id: string
  /** Where others find it; null: not known. */
  readonly url: string | null
  readonly version: string
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
