/**
 * Work on data directories where they lie, with the tables of this package's plugins: what commands do without a server. What a
 * function needs is loaded when it is called.
 */

import { readEnvironment } from '#base/environment.js'
import type { createLocalKey as createKey, LocalKey } from '#service/operations/access/local-keys.js'
import { addressKindsOf, loadSchemaParts } from '#service/plugin.js'
import type { DatabaseAddress } from '#service/storage/remote-database.js'
import { installed } from './others.js'

const parts = () => loadSchemaParts(installed().plugins)

/** See `createLocalKey` of the service. @param database its address; null: a file of the directory */
export async function createLocalKey(
  path: string,
  wanted: Parameters<typeof createKey>[1] = {},
  database: string | null = null,
): Promise<LocalKey> {
  const local = await import('#service/operations/access/local-keys.js')
  const address = database === null ? null : await readDatabase(database)
  return local.createLocalKey(path, wanted, { address, parts: await parts() })
}

async function readDatabase(address: string): Promise<DatabaseAddress> {
  const { readAddress } = await import('#service/storage/addresses.js')
  return readAddress('database', address, addressKindsOf(installed().plugins).databases, readEnvironment())
}
