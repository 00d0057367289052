/**
 * Opens the database of a locked data directory, once it is clear that it belongs there (`ownership.ts`): the way in for whoever
 * writes.
 */
import type { DataDir } from '../data-dir.js'
import { type DatabaseOptions, type OpenDatabase, openDatabase } from '../database.js'
import { type Adoption, assertFits, fitOfDatabase, fitOfFile } from './ownership.js'

/**
 * Opens and migrates it.
 *
 * @param options.adoption what its owner goes on with. Default: with nothing that does not fit
 * @throws as `openDatabase`, and {StorageError} `database_unreadable` for a database that does not fit the data beside it; nothing is
 *   changed then
 */
export async function openOwnDatabase(
  dataDir: Pick<DataDir, 'path' | 'databasePath' | 'blobsPath' | 'apiKeyPath'>,
  { adoption, ...options }: Pick<DatabaseOptions, 'maxPages'> & { readonly adoption?: Adoption } = {},
): Promise<OpenDatabase> {
  await assertFits(await fitOfFile(dataDir), dataDir, adoption)
  return openDatabase(dataDir.databasePath, {
    ...options,
    beforeMigrating: async (db) => assertFits(await fitOfDatabase(db, dataDir), dataDir, adoption),
  })
}
