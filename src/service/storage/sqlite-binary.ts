/**
 * Whether better-sqlite3's compiled part loads. It is fetched or built by a script when the package is installed, so it is missing
 * where install scripts are switched off, and useless after Node.js has changed.
 */
import SqliteDatabase from 'better-sqlite3'
import { StorageError } from '#base/errors.js'

/** @returns SQLite's version @throws {StorageError} `sqlite_unusable` with what makes the binary */
export function assertSqliteLoads(): string {
  try {
    const database = new SqliteDatabase(':memory:')
    const version = String(database.prepare('select sqlite_version()').pluck().get())
    database.close()
    return version
  } catch (cause) {
    const node = process.versions.node
    throw new StorageError('sqlite_unusable', `better-sqlite3 has no binary that Node.js ${node} can load`, {
      hint: 'run `npm rebuild better-sqlite3` where trainyard is installed; npm must be allowed to run its install script',
      cause,
    })
  }
}
