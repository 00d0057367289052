/**
 * Opens a database for reading only: nothing is written or migrated, and it may be of another version.
 *
 * SQLite reads a database with a write-ahead log only if it can create a shared-memory file beside it; on a read-only
 * disk a copy is read instead.
 */
import { copyFile, mkdtemp, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kysely, SqliteDialect } from 'kysely'
import { StorageError } from '#base/errors/errors.js'
import { removeTree } from '#base/util/move-file.js'
import type { OpenDatabase } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'
import { type SchemaPart, withParts } from '#service/storage/schema-part.js'
import { isSqliteError, openSqlite, type Sqlite } from '#service/storage/sqlite.js'
import { assertKnownSchema } from './snapshot.js'

/** @throws {StorageError} `database_unreadable` for a corrupt or foreign file, `database_newer` */
export async function openForReading(path: string, parts: readonly SchemaPart[]): Promise<OpenDatabase> {
  let copy: string | null = null
  try {
    let sqlite: Sqlite
    try {
      sqlite = openChecked(path, parts)
    } catch (error) {
      if (!isSqliteError(error) || !/^SQLITE_(CANTOPEN|READONLY)/.test(error.code)) throw error
      copy = await mkdtemp(join(tmpdir(), 'trainyard-read-'))
      for (const end of ['', '-wal']) {
        if ((await stat(path + end).catch(() => null)) !== null) await copyFile(path + end, join(copy, `db${end}`))
      }
      sqlite = openChecked(join(copy, 'db'), parts)
    }
    const folder = copy
    const db = withParts(new Kysely<Schema>({ dialect: new SqliteDialect({ database: sqlite }) }), parts)
    return {
      db,
      close: async () => {
        await db.destroy()
        if (folder !== null) await removeTree(folder)
      },
    }
  } catch (cause) {
    if (copy !== null) await removeTree(copy)
    if (cause instanceof StorageError) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new StorageError('database_unreadable', `database "${path}" cannot be read: ${reason}`, {
      hint: 'restore the file from a backup',
      cause,
    })
  }
}

function openChecked(path: string, parts: readonly SchemaPart[]): Sqlite {
  const sqlite = openSqlite(path, { readonly: true, fileMustExist: true })
  try {
    const verdict: unknown = sqlite.pragma('quick_check(1)', { simple: true })
    if (verdict !== 'ok') throw new Error(String(verdict))
    assertKnownSchema(sqlite, parts)
    return sqlite
  } catch (error) {
    sqlite.close()
    throw error
  }
}
