/**
 * better-sqlite3, in the version that this Node.js can load: the only place that loads it.
 *
 * Version 13 is built on Node-API, and its binaries come inside the package: nothing is fetched or compiled. It needs Node.js 22.
 * Version 12 has a binary for one version of Node.js, which a script fetches or compiles. Compiled with the headers of Node.js 24.19
 * or later, it ends the process when a statement is collected. So it serves Node.js 20 alone. npm installs of the two what
 * `engines` allows, because both are optional.
 */
import { createRequire } from 'node:module'
import type SqliteDatabase from 'better-sqlite3'
import { StorageError } from '#base/errors/errors.js'

/** An open connection. */
export type Sqlite = SqliteDatabase.Database

const load = createRequire(import.meta.url)
const nodeVersion = process.versions.node
const isNode20 = Number.parseInt(nodeVersion, 10) < 22
const PACKAGE = isNode20 ? 'better-sqlite3-12' : 'better-sqlite3'

/** Opens a database file, or makes it. @throws what SQLite says */
export function openSqlite(path: string, options?: SqliteDatabase.Options): Sqlite {
  const Database = load(PACKAGE) as typeof SqliteDatabase
  return new Database(path, options)
}

/** Texts of statements are few, but for lists of varying length. */
const MOST_STATEMENTS = 256

/** Keeps what SQLite has compiled: a statement of one row costs less to run than to compile. Notes whether one of them writes. */
export class StatementCache {
  readonly #sqlite: Sqlite
  #hasWriter = false
  /** In order of use. */
  readonly #statements = new Map<string, SqliteDatabase.Statement>()

  readonly #beforeWrite: () => void

  /** @param beforeWrite called before a statement that writes runs; what it throws keeps the statement from running */
  constructor(sqlite: Sqlite, beforeWrite: () => void = () => undefined) {
    this.#sqlite = sqlite
    this.#beforeWrite = beforeWrite
  }

  prepare(sql: string): SqliteDatabase.Statement {
    const known = this.#statements.get(sql)
    // one whose rows are still being read cannot be run beside itself
    const statement = known?.busy === true || known === undefined ? this.#sqlite.prepare(sql) : known
    if (!statement.readonly) {
      this.#beforeWrite()
      this.#hasWriter = true
    }
    if (known?.busy === true) return statement
    this.#statements.delete(sql)
    this.#statements.set(sql, statement)
    for (const oldest of this.#statements.keys()) {
      if (this.#statements.size <= MOST_STATEMENTS) break
      this.#statements.delete(oldest)
    }
    return statement
  }

  /** Whether a statement that writes was prepared since the last call. */
  takeHasWriter(): boolean {
    const hasWriter = this.#hasWriter
    this.#hasWriter = false
    return hasWriter
  }

  /** Forgets all, as after tables have changed. */
  clear(): void {
    this.#statements.clear()
  }

  close(): void {
    this.clear()
    this.#sqlite.close()
  }
}

/** Whether SQLite itself refused, and not the code around it; its `code` is one of SQLite's extended result codes. */
export function isSqliteError(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && error.name === 'SqliteError' && 'code' in error && typeof error.code === 'string'
}

/** @returns SQLite's version @throws {StorageError} `sqlite_unusable` with what brings the binary */
export function assertSqliteLoads(): string {
  try {
    const database = openSqlite(':memory:')
    const version = String(database.prepare('select sqlite_version()').pluck().get())
    database.close()
    return version
  } catch (cause) {
    const { what, hint } = isInstalled() ? WITHOUT_BINARY : WITHOUT_PACKAGE
    throw new StorageError('sqlite_unusable', `${SUBJECT} ${what}`, { hint, cause })
  }
}

/** As people know it: the name that version 12 is installed under here is nobody's on the registry. */
const SUBJECT = 'SQLite (the npm package better-sqlite3)'
const WITHOUT_BINARY = {
  what: `has no binary that Node.js ${nodeVersion} can load`,
  hint: isNode20
    ? 'take Node.js 22 or later, for which it comes along; or run `npm rebuild --foreground-scripts` where trainyard is installed, which fetches or compiles it and shows why it cannot'
    : 'install trainyard again with its optional packages, on Linux, macOS or Windows with an x64 or arm64 processor',
}
/** npm takes an optional package away again when its script fails, and says nothing: there is no folder that could be rebuilt. */
const WITHOUT_PACKAGE = {
  what: 'is not installed; npm leaves it out without a word when its install fails',
  hint: isNode20
    ? 'take Node.js 22 or later, which needs no compiler; or install trainyard again with npm and --foreground-scripts, which shows why: a binary is fetched, or compiled with a C++ compiler and the headers of Node.js'
    : 'install trainyard again with its optional packages: not --omit=optional',
}

function isInstalled(): boolean {
  try {
    load.resolve(PACKAGE)
    return true
  } catch {
    return false
  }
}
