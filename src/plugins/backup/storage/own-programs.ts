/**
 * Checks the triggers and views of a database that came from elsewhere. They are programs that run when rows are read
 * or written, so only those made by our migrations are allowed, word for word.
 */
import { Kysely, Migrator, SqliteDialect } from 'kysely'
import { StorageError } from '#base/errors/errors.js'
import { migrationsWith } from '#service/storage/migrations/index.js'
import type { SchemaPart } from '#service/storage/schema-part.js'
import { openSqlite, type Sqlite } from '#service/storage/sqlite.js'

/**
 * @param schema the newest migration of the database
 * @throws {StorageError} `database_foreign` that names a trigger or view no migration made
 */
export async function assertOwnPrograms(path: string, schema: string, parts: readonly SchemaPart[]): Promise<void> {
  const known = await listOwn(schema, parts)
  const sqlite = openSqlite(path, { readonly: true, fileMustExist: true })
  try {
    for (const { type, name, sql } of listPrograms(sqlite)) {
      if (known.get(`${type} ${name}`) === sql) continue
      throw new StorageError(
        'database_foreign',
        `the database has a ${type} "${name.slice(0, 200)}" that this program did not make`,
        {
          hint: 'restore a backup that trainyard backup has written; this one was changed, and what it would run is not known',
        },
      )
    }
  } finally {
    sqlite.close()
  }
}

interface Program {
  readonly type: string
  readonly name: string
  readonly sql: string
}

function listPrograms(sqlite: Sqlite): readonly Program[] {
  return sqlite
    .prepare("select type, name, sql from sqlite_master where type not in ('table', 'index')")
    .all() as Program[]
}

/** What the migrations up to `schema` make, by making it. */
async function listOwn(schema: string, parts: readonly SchemaPart[]): Promise<ReadonlyMap<string, string>> {
  const sqlite = openSqlite(':memory:')
  const db = new Kysely<unknown>({ dialect: new SqliteDialect({ database: sqlite }) })
  try {
    const migrations = Object.fromEntries(Object.entries(migrationsWith(parts)).filter(([name]) => name <= schema))
    const { error } = await new Migrator({ db, provider: { getMigrations: async () => migrations } }).migrateToLatest()
    if (error !== undefined) throw error
    return new Map(listPrograms(sqlite).map(({ type, name, sql }) => [`${type} ${name}`, sql]))
  } finally {
    await db.destroy()
  }
}
