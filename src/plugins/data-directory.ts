/**
 * Work on data directories where they lie, with the tables of this package's plugins: what commands do without a server. What a
 * function needs is loaded when it is called.
 */

import { readEnvironment } from '#base/environment.js'
import type { createLocalKey as createKey, LocalKey } from '#service/operations/access/local-keys.js'
import type { BackupOptions, BackupResult } from '#service/operations/backup/backup.js'
import type { RestoreResult } from '#service/operations/backup/restore.js'
import type { VerifyEvent } from '#service/operations/backup/verify-storage.js'
import type { MoveOptions, MoveResult } from '#service/operations/move/move.js'
import { type AddressKinds, addressKindsOf, loadSchemaParts } from '#service/plugin.js'
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

/** See `createBackup` of the service. */
export async function createBackup(
  path: string,
  file: string,
  options: Omit<BackupOptions, 'parts'> = {},
): Promise<BackupResult> {
  const backup = await import('#service/operations/backup/backup.js')
  return backup.createBackup(path, file, { ...options, parts: await parts() })
}

/** See `restoreBackup` of the service. */
export async function restoreBackup(file: string, path: string): Promise<RestoreResult> {
  const restore = await import('#service/operations/backup/restore.js')
  return restore.restoreBackup(file, path, await parts())
}

/** See `verifyDataDir` of the service. */
export async function* verifyDataDir(path: string, signal: AbortSignal): AsyncGenerator<VerifyEvent> {
  const verify = await import('#service/operations/backup/verify-storage.js')
  yield* verify.verifyDataDir(path, { parts: await parts(), signal })
}

/** See `moveService` of the service. */
export async function moveService(options: Omit<MoveOptions, 'parts' | keyof AddressKinds>): Promise<MoveResult> {
  const move = await import('#service/operations/move/move.js')
  return move.moveService({ ...options, parts: await parts(), ...addressKindsOf(installed().plugins) })
}
