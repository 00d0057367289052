/**
 * Opens the SQLite database: pragmas, integrity, migrations.
 *
 * One connection per process. Kysely serializes transactions on it, so two of ours never interleave; another process
 * cannot write, because `data-dir.ts` holds the directory's lock. Nothing here knows what the tables mean.
 *
 * What a write resolves to is on the disk. SQLite itself would wait for the disk within the commit (`synchronous = FULL`), and the
 * event loop with it: up to a second where somebody else writes much. So it commits to the operating system (`NORMAL`), and the
 * write-ahead log is synced beside the event loop before the writer goes on (`upkeep/write-ahead-log.ts`): many commits, one wait.
 */
import {
  type DatabaseConnection,
  type Driver,
  Kysely,
  type Migration,
  Migrator,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  sql,
  type Transaction,
} from 'kysely'
import { AppError, ConflictError, StorageError, toOpenFilesError } from '#base/errors/errors.js'
import { migrationsWith } from './migrations/index.js'
import { forgottenMigrations } from './removed-plugins.js'
import type { Schema } from './schema.js'
import { type SchemaPart, withParts } from './schema-part.js'
import { isSqliteError, openSqlite, type Sqlite, StatementCache } from './sqlite.js'
import { WriteAheadLog } from './upkeep/write-ahead-log.js'

/** The database itself, from which transactions are opened. */
export type DatabaseHandle = Kysely<Schema>

/** The database or an open transaction: repositories take either. */
export type Database = Kysely<Schema> | Transaction<Schema>

/** An open database and the way to close it. */
export interface OpenDatabase {
  readonly db: Kysely<Schema>
  /** Folds the write-ahead log into the main file and closes; the directory then holds one clean file. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** What plugins add to it. Default: nothing */
  readonly parts?: readonly SchemaPart[]
  /** Most pages of 4096 bytes; beyond it writes fail as on a full disk. Default: no limit. */
  readonly maxPages?: number
  /** False leaves the tables as they are, beside a server that has them open. Default true. */
  readonly isMigrating?: boolean
  /** Looks at the database before its tables change; what it throws leaves them as they are. */
  readonly beforeMigrating?: (db: Kysely<Schema>) => Promise<void>
}

/** How long the start waits for whoever has the database open. */
const START_BUSY_MS = 10_000
/** How long a statement does later, while nothing else of this process moves: only local commands write beside a server. */
const BUSY_MS = 2000

/** Pages of the write-ahead log (16 MB) after which a commit moves them to the main file, which does wait for the disk. */
const CHECKPOINT_PAGES = 4000

/** Milliseconds since 1970 by the database's clock: the only clock leases and times are measured with. */
export const databaseNowMs = sql<number>`cast(unixepoch('subsec') * 1000 as integer)`

/** What the database's clock says, milliseconds since 1970. */
export async function readDatabaseNowMs(db: Database): Promise<number> {
  const { rows } = await sql<{ now_ms: number }>`select ${databaseNowMs} as now_ms`.execute(db)
  return Number(rows[0]?.now_ms ?? 0)
}

/**
 * Opens and migrates a database file.
 *
 * @throws {AppError} `database_locked` if another program writes to it
 * @throws {StorageError} `database_unreadable` for a corrupt, read-only or foreign file; `migration_failed`;
 *   `database_newer` if a newer version of the program has written it
 */
export async function openDatabase(path: string, options: DatabaseOptions = {}): Promise<OpenDatabase> {
  const sqlite = connect(path)
  if (options.maxPages !== undefined) sqlite.pragma(`max_page_count = ${Math.trunc(options.maxPages)}`)
  // without it, as on some network file systems, SQLite waits for the disk itself
  const log = sqlite.pragma('journal_mode', { simple: true }) === 'wal' ? new WriteAheadLog(`${path}-wal`) : null
  const statements = new StatementCache(sqlite, () => log?.assertNamed())
  if (log !== null) sqlite.pragma('synchronous = NORMAL')
  const { parts = [] } = options
  const db = withParts(new Kysely<Schema>({ dialect: new Dialect(statements, log) }), parts)
  try {
    await options.beforeMigrating?.(db)
    if (options.isMigrating ?? true) await migrate(db, migrationsWith(parts))
    statements.clear()
    sqlite.pragma(`busy_timeout = ${BUSY_MS}`)
  } catch (error) {
    await db.destroy()
    await log?.close()
    throw error
  }
  return {
    db,
    close: async () => {
      try {
        if (sqlite.open) sqlite.pragma('wal_checkpoint(TRUNCATE)')
      } catch (error) {
        // a full disk: what is in the log stays there and is whole, the next start folds it in
        if (!isSqliteError(error)) throw error
      }
      await db.destroy()
      await log?.close()
    },
  }
}

/**
 * Kysely's SQLite driver, except that a rollback which SQLite did by itself (full disk) does not hide its cause, that who waits
 * for the connection gets it in turn (Kysely wakes all of them each time, so that a thousand requests at once are a million wakings),
 * and that who has written goes on when it is on the disk.
 */
class TolerantDriver extends SqliteDriver {
  readonly #statements: StatementCache
  readonly #log: WriteAheadLog | null
  readonly #waiting: (() => void)[] = []
  #isTaken = false

  constructor(config: SqliteDialectConfig, statements: StatementCache, log: WriteAheadLog | null) {
    super(config)
    this.#statements = statements
    this.#log = log
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    if (this.#isTaken) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#isTaken = true
    return super.acquireConnection()
  }

  override async releaseConnection(): Promise<void> {
    const hasWriter = this.#statements.takeHasWriter()
    await super.releaseConnection()
    const next = this.#waiting.shift()
    if (next === undefined) this.#isTaken = false
    else next()
    if (!hasWriter || this.#log === null) return
    try {
      await this.#log.synced()
    } catch (cause) {
      throw isDiskFailure(cause) ? notSynced(cause) : cause
    }
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.rollbackTransaction(connection)
    } catch (error) {
      if (!messageOf(error).includes('no transaction is active')) throw error
    }
  }
}

class Dialect extends SqliteDialect {
  readonly #statements: StatementCache
  readonly #log: WriteAheadLog | null

  /** @param log null: SQLite waits for the disk itself */
  constructor(statements: StatementCache, log: WriteAheadLog | null) {
    super({ database: statements })
    this.#statements = statements
    this.#log = log
  }

  override createDriver(): Driver {
    return new TolerantDriver({ database: this.#statements }, this.#statements, this.#log)
  }
}

function connect(path: string): Sqlite {
  let sqlite: Sqlite | null = null
  try {
    sqlite = openSqlite(path)
    // busy_timeout first: switching to WAL itself needs a lock that another reader may hold for a moment
    sqlite.pragma(`busy_timeout = ${START_BUSY_MS}`)
    sqlite.pragma('journal_mode = WAL')
    sqlite.pragma('synchronous = FULL')
    sqlite.pragma('foreign_keys = ON')
    sqlite.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    sqlite.pragma('journal_size_limit = 67108864')
    sqlite.pragma('temp_store = MEMORY')
    const verdict: unknown = sqlite.pragma('quick_check(1)', { simple: true })
    if (verdict !== 'ok') throw new Error(String(verdict))
    return sqlite
  } catch (cause) {
    sqlite?.close()
    if (isLocked(cause)) throw toStorageError(cause)
    throw new StorageError('database_unreadable', `database "${path}" cannot be used: ${messageOf(cause)}`, {
      hint: 'restore the file from a backup, or start with another --data-dir',
      cause,
    })
  }
}

/**
 * Brings the tables to what this version wants.
 *
 * @throws {StorageError} `migration_failed`, `database_newer`
 */
export async function migrate(db: Kysely<Schema>, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  // before the migrator has the connection
  const all = { ...migrations, ...(await forgottenMigrations(db, migrations)) }
  const provider = { getMigrations: async () => all }
  // one of the core that came later sorts before those of plugins
  const { error } = await new Migrator({ db, provider, allowUnorderedMigrations: true }).migrateToLatest()
  if (error === undefined) return
  const storageError = error instanceof AppError ? error : toStorageError(error)
  if (storageError !== null) throw storageError
  if (messageOf(error).includes('previously executed migration')) {
    throw new StorageError('database_newer', 'the database was written by a newer version of the program', {
      hint: 'install that version again, or start with another --data-dir or --database',
      cause: error,
    })
  }
  throw new StorageError('migration_failed', `the database could not be migrated: ${messageOf(error)}`, {
    cause: error,
  })
}

/** True for a violated unique index: another create came first. */
export function isUniqueViolation(error: unknown): boolean {
  // PostgreSQL's code first
  if (codeOf(error) === '23505') return true
  return (
    isSqliteError(error) && (error.code === 'SQLITE_CONSTRAINT_UNIQUE' || error.code === 'SQLITE_CONSTRAINT_PRIMARYKEY')
  )
}

/** True when the disk is full or the file system refuses to write. */
export function isDiskFailure(error: unknown): boolean {
  if (isSqliteError(error)) {
    return /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN)/.test(error.code)
  }
  const code = codeOf(error)
  return typeof code === 'string' && /^(ENOSPC|EDQUOT|EROFS|EIO|EFBIG)$/.test(code)
}

function isLocked(error: unknown): boolean {
  return isSqliteError(error) && /^SQLITE_(BUSY|LOCKED)/.test(error.code)
}

/** True for a row of what another request has deleted at the same moment. */
function isOrphan(error: unknown): boolean {
  return codeOf(error) === '23503' || (isSqliteError(error) && error.code === 'SQLITE_CONSTRAINT_FOREIGNKEY')
}

/**
 * The error a person can act on for a failure of the disk, of the database file or to open one, and for what others have
 * deleted; null for anything else.
 */
export function toStorageError(error: unknown): AppError | null {
  if (isOrphan(error)) {
    return new ConflictError('deleted_meanwhile', 'what this belongs to was deleted at the same moment', {
      hint: 'nothing was changed; look what is there, for example GET /v1/preview/models',
      cause: error,
    })
  }
  const openFilesError = toOpenFilesError(error)
  if (openFilesError !== null) return openFilesError
  if (isLocked(error)) {
    return new AppError('unavailable', 'database_locked', 'the database is locked by another program', {
      hint: 'try again; if it stays so, end the program that has trainyard.sqlite3 open, for example a database shell',
      cause: error,
    })
  }
  if (!isDiskFailure(error)) return null
  // the disk may have room, but not for files of this size
  const isTooLarge = codeOf(error) === 'EFBIG'
  const reason = isTooLarge
    ? 'a file is larger than its file system or `ulimit -f` allows'
    : 'the disk is full or read-only'
  return new AppError('unavailable', 'disk_full', `the data directory cannot be written: ${reason}`, {
    hint: isTooLarge
      ? 'choose another file system for --data-dir, or raise the limit'
      : 'free some space and try again',
    cause: error,
  })
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : null
}

/** The database has taken the write: whoever thinks that nothing happened meets what it made. */
function notSynced(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'disk_full',
    'the disk failed while the write was on its way to it: it may be done all the same, or lost with the power',
    {
      hint: 'look before you repeat it; with the same Idempotency-Key, or return_existing for a model, a repetition returns what was made',
      cause,
    },
  )
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
