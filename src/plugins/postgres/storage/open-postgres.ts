/**
 * Opens a PostgreSQL database: a pool of connections, migrations, and a lock that keeps a second server out, or lets in only
 * such as share.
 *
 * The driver is loaded here and only when it is needed. Transactions are serializable and repeated when the database asks for it
 * (`in-transaction.ts`); single statements see what is committed. Nothing here knows what the tables mean.
 */
import { Kysely, type Migration, sql } from 'kysely'
import { readEnvironment } from '#base/environment.js'
import { AppError, InvalidRequestError, StorageError } from '#base/errors/errors.js'
import { migrate } from '#service/storage/database.js'
import { shareTransactions } from '#service/storage/in-transaction.js'
import { createTable as createKeptTrainingData } from '#service/storage/migrations/0036-kept-training-data.js'
import { migrationsWith } from '#service/storage/migrations/index.js'
import type {
  DatabaseAddress,
  RemoteDatabase,
  RemoteDatabaseOptions,
  SharedDatabase,
} from '#service/storage/remote-database.js'
import type { Schema } from '#service/storage/schema.js'
import { type FirstTables, mergeMigrations, type SchemaPart, withParts } from '#service/storage/schema-part.js'
import { CLOCK, PoolDialect } from './dialect.js'
import { type Client, loadDriver, withPassword } from './driver.js'
import { toDatabaseError } from './errors.js'
import { createBlobGuard, createLastingDuty, inTurnOfStarts, onDuty } from './locks.js'
import { createPasswordSource } from './password-file.js'
import { holdServerLock, NOTICE_CHANNEL, type ServerLockOptions } from './server-lock.js'
import { createSharedTransactions } from './shared-transactions.js'
import { STATEMENTS, toStatements } from './tables.js'
import { blobTriggers, triggers } from './triggers.js'

// What a PostgreSQL database goes through: all tables at once, then the migrations that came later, which are SQLite's own. One
// of those that needs words of SQLite alone (a trigger, `json_each`) gets a second spelling here, under its name.

/** The last of SQLite's migrations that `tables.ts` has in it; the name sorts before those that follow. */
export const SQUASHED = '0028-job-workers'

const OWN_SPELLINGS: Readonly<Record<string, Migration>> = {
  '0036-kept-training-data': {
    up: async (db) => {
      await createKeptTrainingData(db)
      for (const column of ['data_sha256', 'rollouts_sha256']) {
        for (const statement of blobTriggers(['kept_training_data', column, 1])) await sql.raw(statement).execute(db)
      }
    },
  },
}

const createTables: Migration = {
  up: async (db) => {
    for (const statement of [...toStatements(STATEMENTS), ...triggers(CLOCK)]) await sql.raw(statement).execute(db)
  },
}

/** Name → migration, applied in the order of the names. */
export function postgresMigrationsWith(parts: readonly SchemaPart[]): Readonly<Record<string, Migration>> {
  const own = { [SQUASHED]: createTables, ...later(migrationsWith([])), ...OWN_SPELLINGS }
  return mergeMigrations(own, parts, ({ firstTables, migrations, postgresMigrations }) => ({
    ...(firstTables === undefined ? {} : { [SQUASHED]: createFirst(firstTables) }),
    ...later(migrations),
    ...postgresMigrations,
  }))
}

function createFirst({ statements, blobs = [] }: FirstTables): Migration {
  return {
    up: async (db) => {
      const notes = blobs.flatMap(blobTriggers)
      for (const statement of [...toStatements(statements), ...notes]) await sql.raw(statement).execute(db)
    },
  }
}

/** Those that came after the first. */
function later(migrations: Readonly<Record<string, Migration>>): Readonly<Record<string, Migration>> {
  return Object.fromEntries(Object.entries(migrations).filter(([name]) => name > SQUASHED))
}

/**
 * The address of a database: `postgres://user@host:5432/name`, or with a folder of sockets
 * `postgres://user@/name?host=/run/postgresql`. Passwords are in no setting: they would show in lists of processes and
 * settings. PostgreSQL's own client takes PGPASSWORD or PGPASSFILE.
 */
interface PostgresAddress {
  /** For the driver. */
  readonly url: string
  /** For people: without what follows `?`. */
  readonly name: string
}

const EXAMPLE = 'postgres://trainyard@db.internal:5432/trainyard'

/** @param text begins with a scheme of the plugin @throws {InvalidRequestError} `invalid_setting` */
function parsePostgresAddress(text: string): PostgresAddress {
  // a folder of sockets has no host before the path, which URL takes for a broken address
  const parsable = text.replace(/^(postgres(?:ql)?:\/\/[^/@]*@?)\//, '$1socket/')
  if (!URL.canParse(parsable)) throw invalid(`database must be an address like ${EXAMPLE}, and this one cannot be read`)
  const url = new URL(parsable)
  if (url.password !== '' || url.searchParams.has('password')) {
    throw invalid('database must not hold a password', 'set PGPASSWORD, or name a file with it in PGPASSFILE')
  }
  if (url.pathname.length < 2) throw invalid(`database must name a database after the host, as in ${EXAMPLE}`)
  return { url: text, name: text.replace(/\?.*$/s, '') }
}

function invalid(message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError('invalid_setting', message, {
    param: 'database',
    ...(hint === undefined ? {} : { hint }),
  })
}

/** How long a statement waits for a connection before it is told that the database cannot be reached. */
const CONNECT_MS = 10_000
/** No statement of ours takes so long: the way to the database is cut, and nothing else would tell. */
const ANSWER_MS = 120_000
/** The oldest version that is tested. */
const LEAST_VERSION = 15
const INTEGER_OIDS = [20, 1700]

/**
 * Opens and migrates it.
 *
 * @throws {InvalidRequestError} `invalid_setting`; {AppError} `database_unavailable`; {ConflictError} `database_in_use` while
 *   another server works with it that does not share it, or has older tables; {StorageError} `database_refused`,
 *   `database_newer`, `migration_failed`
 */
export async function openPostgres(address: string, options: RemoteDatabaseOptions): Promise<RemoteDatabase> {
  const { url, name } = parsePostgresAddress(address)
  const { onTrouble = () => undefined, onTakenOver = () => undefined, parts = [] } = options
  const migrations = postgresMigrationsWith(parts)
  const pg = loadDriver()
  const Client = withPassword(pg.Client, createPasswordSource(readEnvironment()))
  const connection = {
    connectionString: url,
    application_name: 'trainyard',
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    query_timeout: ANSWER_MS,
    // of a machine that is gone locks and rows are free within about a minute, where the system's default is two hours
    options: '-c timezone=UTC -c client_encoding=UTF8 -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5',
    // 64-bit integers and sums of them as numbers: without, they are texts, and comparisons of them silently wrong
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        INTEGER_OIDS.includes(oid) ? Number : pg.types.getTypeParser(oid, format),
    },
  }
  const isBeside = options.isBeside ?? false
  const shared = options.sharing
  const sharing: ServerLockOptions['sharing'] =
    shared === undefined
      ? null
      : { hasToMigrate: (client) => hasToMigrate(client, Object.keys(migrations)), onNotice: shared.onNotice }
  const createClient = () =>
    new Client(shared === undefined ? connection : { ...connection, application_name: nameOfServer(shared.id) })
  const lock = isBeside
    ? null
    : await holdServerLock(createClient, { sharing, onTrouble, onTakenOver }).catch((error: unknown) => {
        throw withReason(error, name)
      })
  const pool = new pg.Pool({ ...connection, Client, pipeline: true, max: options.maxConnections })
  pool.on('error', onTrouble)
  // the pool hears of connections that are idle; one that breaks between two statements of a transaction would end the process
  pool.on('connect', (client) => client.on('error', onTrouble))
  const db = withParts(new Kysely<Schema>({ dialect: new PoolDialect(pool) }), parts)
  try {
    if (lock !== null) assertVersion(lock.version)
    await options.beforeMigrating?.(db)
    if (!isBeside) await migrate(db, migrations)
    if (sharing !== null && lock?.isExclusive === true) await lock.share()
  } catch (error) {
    await db.destroy()
    await lock?.release()
    throw toDatabaseError(error)
  }
  shareTransactions(db, createSharedTransactions(db))
  return {
    db,
    shared: sharedBy(db),
    close: async () => {
      await db.destroy()
      await lock?.release()
    },
  }
}

function sharedBy(db: Kysely<Schema>): SharedDatabase {
  return {
    notify: (payload) => notifyServers(db, payload),
    isConnected: (id) => isServerConnected(db, id),
    onDuty: (duty, action) => onDuty(db, duty, action),
    lastingDuty: (duty) => createLastingDuty(db, duty),
    inTurnOfStarts: (action) => inTurnOfStarts(db, action),
    createBlobGuard: () => createBlobGuard(db),
  }
}

/** @throws {InvalidRequestError} `invalid_setting` */
export async function readDatabaseAddress(text: string): Promise<DatabaseAddress> {
  return {
    name: parsePostgresAddress(text).name,
    open: (options) => openPostgres(text, options),
    migrationNames: (parts) => Object.keys(postgresMigrationsWith(parts)),
  }
}

/** Says something to all servers that share the database, this one included, when everything before it is committed. */
export async function notifyServers(db: Kysely<Schema>, payload: string): Promise<void> {
  await sql`select pg_notify(${NOTICE_CHANNEL}, ${payload})`.execute(db)
}

/** Whether a server that shares the database has its connection: one that was killed has none from that moment on. */
export async function isServerConnected(db: Kysely<Schema>, id: string): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_stat_activity
    where datname = current_database() and application_name = ${nameOfServer(id)}`.execute(db)
  return rows.length > 0
}

function nameOfServer(id: string): string {
  return `trainyard ${id}`
}

async function hasToMigrate(client: Client, names: readonly string[]): Promise<boolean> {
  const { rows: tables } = await client.query<{ is_there: boolean }>(
    "select to_regclass('kysely_migration') is not null as is_there",
  )
  if (tables[0]?.is_there !== true) return true
  const { rows } = await client.query<{ name: string }>('select name from kysely_migration')
  const done = new Set(rows.map(({ name }) => name))
  return names.some((name) => !done.has(name))
}

/** Who starts a server may know what those who ask it for something may not: where the database is, and what came of it. */
function withReason(error: unknown, name: string): unknown {
  if (!(error instanceof AppError) || error.code !== 'database_unavailable') return error
  const reason = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  return new AppError('unavailable', error.code, `the database ${name} cannot be reached${reason}`, {
    hint: 'look whether it runs, and whether --database names its host and port',
    cause: error.cause,
  })
}

function assertVersion(version: number): void {
  if (version >= LEAST_VERSION) return
  throw new StorageError(
    'database_refused',
    `the database must be PostgreSQL ${LEAST_VERSION} or newer, got ${version}`,
  )
}
