/**
 * Who works with a database: one server alone, or several beside each other. Each holds an advisory lock on a connection of its
 * own, which the database drops when the server dies, however it dies: one that is alone holds it exclusively, the others share
 * it. When the connection is lost the server goes on and takes the lock again as soon as it can; where another has it
 * exclusively meanwhile, it must not go on.
 *
 * Servers that share a database hear each other on that connection (`LISTEN`). What was said while it was lost is lost: then
 * they are told so.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConflictError } from '#base/errors/errors.js'
import type { Client } from './driver.js'
import { toDatabaseError } from './errors.js'

export interface ServerLock {
  /** Of PostgreSQL, its first number. */
  readonly version: number
  /** Whether no other server is there, so that tables may change. */
  readonly isExclusive: boolean
  /** Lets others in. */
  share(): Promise<void>
  release(): Promise<void>
}

/** Any number that nobody else takes. */
const LOCK_ID = 8_642_001
/** How often a start tries while the server before is being cleared away, and how long it waits in between. */
const TRIES = 10
/** The same beside others, one of which may be making the tables. */
const TRIES_BESIDE = 40
/** On which servers hear each other. */
export const NOTICE_CHANNEL = 'trainyard'
const WAIT_MS = 300

export interface ServerLockOptions {
  /** Null: it is alone, which the others are told. Else it shares the database with others. */
  readonly sharing: {
    /** Whether tables are to be made or changed before others may come: then it must be the only one for a while. */
    readonly hasToMigrate: (client: Client) => Promise<boolean>
    /** What servers say to each other; null: something may have been missed. */
    readonly onNotice: (payload: string | null) => void
  } | null
  readonly onTrouble: (error: unknown) => void
  /** Another server works with the database; told once. */
  readonly onTakenOver: (error: ConflictError) => void
}

/** @throws {ConflictError} `database_in_use`; what the connection's failure is called */
export async function holdServerLock(
  createClient: () => Client,
  { sharing, onTrouble, onTakenOver }: ServerLockOptions,
): Promise<ServerLock> {
  let isReleased = false
  let client = await connect()
  const { version, pid, isExclusive } = await orEnd(client, (first) => takeFirst(first, sharing))
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
      if (sharing !== null) {
        created.on('notification', ({ payload }) => sharing.onNotice(payload ?? ''))
        await created.query(`listen ${NOTICE_CHANNEL}`)
      }
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
      (await take(next, sharing !== null)) ? await pidOf(next) : { takenBy: await takerOf(next, sharing !== null) },
    )
    if (typeof found === 'number' && !isReleased) {
      client = next
      holder = found
      watch(next)
      sharing?.onNotice(null)
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
    isExclusive,
    share: async () => {
      await client.query('select pg_advisory_lock_shared($1)', [LOCK_ID])
      await client.query('select pg_advisory_unlock($1)', [LOCK_ID])
    },
    release: async () => {
      isReleased = true
      await client.end().catch(() => undefined)
    },
  }
}

async function takeFirst(client: Client, sharing: ServerLockOptions['sharing']) {
  const { rows } = await client.query<{ version: number }>(
    "select current_setting('server_version_num')::integer / 10000 as version",
  )
  const facts = { version: rows[0]?.version ?? 0, pid: await pidOf(client) }
  for (let tries = sharing === null ? TRIES : TRIES_BESIDE; tries > 0; tries -= 1) {
    if (sharing !== null && (await take(client, true))) {
      if (!(await sharing.hasToMigrate(client))) return { ...facts, isExclusive: false }
      await client.query('select pg_advisory_unlock_shared($1)', [LOCK_ID])
    }
    if (await take(client, false)) return { ...facts, isExclusive: true }
    await sleep(WAIT_MS)
  }
  throw inUse(sharing !== null)
}

function inUse(isSharing: boolean): ConflictError {
  if (!isSharing) {
    return new ConflictError('database_in_use', 'another server works with this database', {
      hint: 'stop that server, or name another --database',
    })
  }
  return new ConflictError(
    'database_in_use',
    'another server works with this database, alone (--single-server) or with tables of an earlier version',
    { hint: 'stop it and start this one again, or name another --database' },
  )
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

/** Whose process keeps this one out; null: nobody's, by now. @param isShared whether others that share are no trouble */
async function takerOf(client: Client, isShared: boolean): Promise<number | null> {
  const { rows } = await client.query<{ pid: number }>(
    `select pid from pg_locks where locktype = 'advisory' and classid = 0 and objid = $1 and objsubid = 1 and granted
      ${isShared ? "and mode = 'ExclusiveLock'" : ''}
      and database = (select oid from pg_database where datname = current_database())`,
    [LOCK_ID],
  )
  return rows[0]?.pid ?? null
}

async function take(client: Client, isShared: boolean): Promise<boolean> {
  const lock = isShared ? 'pg_try_advisory_lock_shared' : 'pg_try_advisory_lock'
  const { rows } = await client.query<{ taken: boolean }>(`select ${lock}($1) as taken`, [LOCK_ID])
  return rows[0]?.taken === true
}
