/**
 * What one of several servers does at a time: advisory locks, which the database drops with the connection that holds them.
 */

import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { createDeferred } from '#base/util/deferred.js'
import { createTurns } from '#base/util/turns.js'
import type { BlobGuard } from '#service/storage/blobs/remote-blobs.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import type { LastingDuty } from '#service/storage/remote-database.js'

/** Any numbers that nobody else takes. */
const SWEEP_LOCK = 8_642_002
const PLACEMENT_LOCK = 8_642_003
const START_LOCK = 8_642_004
const BLOB_LOCKS = 77_642
/** Each holds one of the server's connections for as long as an upload takes: the others are for requests. */
const BLOBS_AT_ONCE = 2

/** Of the core; a plugin has one by its name. */
const DUTIES: Readonly<Record<string, number>> = { sweep: SWEEP_LOCK, placement: PLACEMENT_LOCK }

function lockOf(duty: string): number {
  return DUTIES[duty] ?? createHash('sha256').update(duty).digest().readUIntBE(0, 6)
}

/**
 * Does what one server at a time does.
 *
 * @returns null, with nothing done, while another does it
 */
export async function onDuty<T>(db: DatabaseHandle, duty: string, action: () => Promise<T>): Promise<T | null> {
  const id = lockOf(duty)
  return db.connection().execute(async (connection) => {
    const { rows } = await sql<{ taken: boolean }>`select pg_try_advisory_lock(${sql.lit(id)}) as taken`.execute(
      connection,
    )
    if (rows[0]?.taken !== true) return null
    return thenUnlock(connection, sql`select pg_advisory_unlock(${sql.lit(id)})`, action)
  })
}

/**
 * Takes the duty when it is free, and keeps it until it is released or the connection that holds it is gone: one of the server's.
 */
export function createLastingDuty(db: DatabaseHandle, duty: string): LastingDuty {
  const id = lockOf(duty)
  let held: { readonly connection: Database; end(): Promise<void> } | null = null

  async function take(): Promise<typeof held> {
    const { promise: isOver, resolve: finish } = createDeferred<void>()
    const { promise: taken, resolve, reject } = createDeferred<typeof held>()
    const holding = db.connection().execute(async (connection) => {
      const { rows } = await sql<{ taken: boolean }>`select pg_try_advisory_lock(${sql.lit(id)}) as taken`.execute(
        connection,
      )
      if (rows[0]?.taken !== true) return resolve(null)
      await thenUnlock(connection, sql`select pg_advisory_unlock(${sql.lit(id)})`, () => {
        const end = async (): Promise<void> => {
          finish()
          await holding
        }
        resolve({ connection, end })
        return isOver
      })
    })
    holding.catch(reject)
    return taken
  }

  async function release(): Promise<void> {
    const before = held
    held = null
    await before?.end()
  }

  return {
    run: async (action) => {
      if (held !== null) {
        // the database drops the lock with the connection, and another server may have it since
        const lives = sql`select 1`.execute(held.connection)
        await lives.catch(release)
      }
      held ??= await take()
      return held === null ? null : action()
    },
    release,
  }
}

/** Does what servers do one after the other when they start: what the first of them makes the next one finds. */
export async function inTurnOfStarts<T>(db: DatabaseHandle, action: () => Promise<T>): Promise<T> {
  return db.connection().execute(async (connection) => {
    await sql`select pg_advisory_lock(${sql.lit(START_LOCK)})`.execute(connection)
    return thenUnlock(connection, sql`select pg_advisory_unlock(${sql.lit(START_LOCK)})`, action)
  })
}

/** Does what no two servers do at once with a blob: writing it again because it was old, and deleting it because it is. */
export async function withBlobLocked<T>(db: DatabaseHandle, sha256: string, action: () => Promise<T>): Promise<T> {
  // signed 32 bits of the digest
  const key = Number.parseInt(sha256.slice(0, 8), 16) | 0
  return db.connection().execute(async (connection) => {
    await sql`select pg_advisory_lock(${sql.lit(BLOB_LOCKS)}, ${sql.lit(key)})`.execute(connection)
    return thenUnlock(connection, sql`select pg_advisory_unlock(${sql.lit(BLOB_LOCKS)}, ${sql.lit(key)})`, action)
  })
}

/** `withBlobLocked` for one server, of a few blobs at a time. */
export function createBlobGuard(db: DatabaseHandle): BlobGuard {
  const turns = createTurns({
    what: 'blobs',
    atOnce: BLOBS_AT_ONCE,
    mostWaiting: Number.POSITIVE_INFINITY,
    mostOfOneKey: Number.POSITIVE_INFINITY,
  })
  const { signal } = new AbortController()
  return (sha256, action) => turns.take(sha256, signal, () => withBlobLocked(db, sha256, action))
}

async function thenUnlock<T>(
  connection: Database,
  unlock: ReturnType<typeof sql>,
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action()
  } finally {
    // a connection that broke has lost the lock already
    await unlock.execute(connection).catch(() => undefined)
  }
}
