/**
 * Opens the database of a locked data directory, once it is clear that it belongs there (`ownership.ts`): the way in for whoever
 * writes.
 */
import type { DataDir } from '../data-dir.js'
import { type DatabaseOptions, type OpenDatabase, openDatabase } from '../database.js'
import { parsePostgresAddress } from '../postgres/address.js'
import { openPostgres, type PostgresOptions } from '../postgres/open-postgres.js'
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
 * The same for a PostgreSQL database, whose blobs may lie in the directory.
 *
 * @throws as `openPostgres`, and {StorageError} `database_unreadable`
 */
export async function openOwnPostgres(
  address: string,
  dataDir: Pick<DataDir, 'path' | 'blobsPath' | 'apiKeyPath'>,
  { adoption, ...options }: PostgresOptions & { readonly adoption?: Adoption },
): Promise<OpenDatabase> {
  const paths = { ...dataDir, databasePath: parsePostgresAddress(address).name }
  return openPostgres(address, {
    ...options,
    beforeMigrating: async (db) => assertFits(await fitOfDatabase(db, paths), paths, adoption),
  })
}
