/**
 * One server at a time works with a database: it holds an advisory lock on a connection of its own, which the database drops when the
 * server dies, however it dies. When the connection is lost the server goes on and takes the lock again as soon as it can.
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

/** @throws {ConflictError} `database_in_use`; what the connection's failure is called */
export async function holdServerLock(
  createClient: () => Client,
  onTrouble: (error: unknown) => void,
): Promise<ServerLock> {
  let isReleased = false
  let client = await connect()
  const { rows } = await client.query<{ version: number }>(
    "select current_setting('server_version_num')::integer / 10000 as version",
  )
  for (let tries = 1; !(await take(client)); tries += 1) {
    if (tries === TRIES) {
      await client.end()
      throw new ConflictError('database_in_use', 'another server works with this database', {
        hint: 'stop that server, or name another --database',
      })
    }
    await sleep(WAIT_MS)
  }
  watch(client)

  async function connect(): Promise<Client> {
    const created = createClient()
    created.on('error', onTrouble)
    try {
      await created.connect()
    } catch (error) {
      throw toDatabaseError(error)
    }
    // of a machine that is gone the lock is free within a minute
    await created.query(
      "select set_config('tcp_keepalives_idle', '20', false), set_config('tcp_keepalives_interval', '5', false)",
    )
    return created
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
        const next = await connect()
        if (isReleased || (await take(next))) {
          client = next
          if (isReleased) await next.end()
          else watch(next)
          return
        }
        onTrouble(new ConflictError('database_in_use', 'another server took the database over'))
        await next.end()
      } catch {
        // it is told by whoever needs the database
      }
    }
  }

  return {
    version: rows[0]?.version ?? 0,
    release: async () => {
      isReleased = true
      await client.end().catch(() => undefined)
    },
  }
}

async function take(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [LOCK_ID])
  return rows[0]?.taken === true
}
