/**
 * One server at a time works with a database: it holds an advisory lock on a connection of its own, which the database drops when the
 * server dies, however it dies. When the connection is lost the server goes on and takes the lock again as soon as it can; where another has
 * taken it meanwhile, it must not go on.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConflictError } from '#base/errors/errors.js'
import type { Client } from './driver.js'
import { toDatabaseError } from './errors.js'

export interface ServerLock {
  /** Of PostgreSQL, its first number. */
  readonly version: number
  release(): Promise<void>
}

/** Any number that nobody else takes. */
const LOCK_ID = 8_642_001
/** How often a start tries while the server before is being cleared away, and how long it waits in between. */
const TRIES = 10
const WAIT_MS = 300

export interface ServerLockEvents {
  readonly onTrouble: (error: unknown) => void
  /** Another server works with the database; told once. */
  readonly onTakenOver: (error: ConflictError) => void
}

/** @throws {ConflictError} `database_in_use`; what the connection's failure is called */
export async function holdServerLock(
  createClient: () => Client,
  { onTrouble, onTakenOver }: ServerLockEvents,
): Promise<ServerLock> {
  let isReleased = false
  let client = await connect()
  const { version, pid } = await orEnd(client, takeFirst)
  /** Of the connection that held it last: its process may outlive it for a minute. */
  let holder = pid
  watch(client)

  async function connect(): Promise<Client> {
    const created = createClient()
    created.on('error', onTrouble)
    return orEnd(created, async () => {
      await created.connect().catch((error: unknown) => {
        throw toDatabaseError(error)
      })
      // of a machine that is gone the lock is free within a minute
      await created.query(
        "select set_config('tcp_keepalives_idle', '20', false), set_config('tcp_keepalives_interval', '5', false)",
      )
      return created
    })
  }

  function watch(watched: Client): void {
    watched.once('end', () => {
      if (!isReleased) void takeAgain()
    })
  }

  async function takeAgain(): Promise<void> {
    while (!isReleased) {
      await sleep(WAIT_MS, undefined, { ref: false })
      try {
        if (await tryAgain(await connect())) return
      } catch {
        // it is told by whoever needs the database
      }
    }
  }

  /** @returns whether that is the end of it */
  async function tryAgain(next: Client): Promise<boolean> {
    const found = await orEnd(next, async () =>
      (await take(next)) ? await pidOf(next) : { takenBy: await takerOf(next) },
    )
    if (typeof found === 'number' && !isReleased) {
      client = next
      holder = found
      watch(next)
      return true
    }
    await next.end()
    if (isReleased) return true
    if (typeof found === 'number' || found.takenBy === null || found.takenBy === holder) return false
    onTakenOver(new ConflictError('database_in_use', 'another server took the database over, so this one stops'))
    return true
  }

  return {
    version,
    release: async () => {
      isReleased = true
      await client.end().catch(() => undefined)
    },
  }
}

async function takeFirst(client: Client): Promise<{ readonly version: number; readonly pid: number }> {
  const { rows } = await client.query<{ version: number }>(
    "select current_setting('server_version_num')::integer / 10000 as version",
  )
  for (let tries = 1; !(await take(client)); tries += 1) {
    if (tries === TRIES) {
      throw new ConflictError('database_in_use', 'another server works with this database', {
        hint: 'stop that server, or name another --database',
      })
    }
    await sleep(WAIT_MS)
  }
  return { version: rows[0]?.version ?? 0, pid: await pidOf(client) }
}

/** A connection that is of no use is not left open. */
async function orEnd<T>(client: Client, action: (client: Client) => Promise<T>): Promise<T> {
  try {
    return await action(client)
  } catch (error) {
    await client.end().catch(() => undefined)
    throw error
  }
}

/** Of the process of the database that serves a connection. */
async function pidOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid ?? 0
}

/** Whose process holds the lock; null: nobody's, by now. */
async function takerOf(client: Client): Promise<number | null> {
  const { rows } = await client.query<{ pid: number }>(
    `select pid from pg_locks where locktype = 'advisory' and classid = 0 and objid = $1 and objsubid = 1 and granted
      and database = (select oid from pg_database where datname = current_database())`,
    [LOCK_ID],
  )
  return rows[0]?.pid ?? null
}

async function take(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [LOCK_ID])
  return rows[0]?.taken === true
}
