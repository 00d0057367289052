/**
 * Opens the database of a locked data directory, once it is clear that it belongs there (`ownership.ts`): the way in for whoever
 * writes.
 */
import type { DataDir } from '../data-dir.js'
import { type DatabaseOptions, type OpenDatabase, openDatabase } from '../database.js'
import type { DatabaseAddress, RemoteDatabase, RemoteDatabaseOptions } from '../remote-database.js'
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
  { adoption, ...options }: Pick<DatabaseOptions, 'maxPages' | 'parts'> & { readonly adoption?: Adoption } = {},
): Promise<OpenDatabase> {
  await assertFits(await fitOfFile(dataDir), dataDir, adoption)
  return openDatabase(dataDir.databasePath, {
    ...options,
    beforeMigrating: async (db) => assertFits(await fitOfDatabase(db, dataDir), dataDir, adoption),
  })
}

/**
 * The same for a database at an address, whose blobs may lie in the directory.
 *
 * @throws as {@link DatabaseAddress.open}, and {StorageError} `database_unreadable`
 */
export async function openOwnRemote(
  address: DatabaseAddress,
  dataDir: Pick<DataDir, 'path' | 'blobsPath' | 'apiKeyPath'>,
  { adoption, ...options }: RemoteDatabaseOptions & { readonly adoption?: Adoption },
): Promise<RemoteDatabase> {
  const paths = { ...dataDir, databasePath: address.name }
  return address.open({
    ...options,
    beforeMigrating: async (db) => assertFits(await fitOfDatabase(db, paths), paths, adoption),
  })
}
