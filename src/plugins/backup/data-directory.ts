/**
 * What commands do with data directories where they lie, with the tables of all plugins of the process. What a function needs is
 * loaded when it is called.
 */
import { installed } from '#plugins/others.js'
import { type AddressKinds, addressKindsOf, loadSchemaParts } from '#service/plugin.js'
import type { BackupOptions, BackupResult } from './backup.js'
import type { MoveOptions, MoveResult } from './move/move.js'
import type { RestoreResult } from './restore.js'
import type { VerifyEvent } from './verify-storage.js'

const parts = () => loadSchemaParts(installed().plugins)

/** See `createBackup`, with the tables of plugins. */
export async function createBackup(
  path: string,
  file: string,
  options: Omit<BackupOptions, 'parts'> = {},
): Promise<BackupResult> {
  const backup = await import('./backup.js')
  return backup.createBackup(path, file, { ...options, parts: await parts() })
}

/** See `restoreBackup`, with the tables of plugins. */
export async function restoreBackup(file: string, path: string): Promise<RestoreResult> {
  const restore = await import('./restore.js')
  return restore.restoreBackup(file, path, await parts())
}

/** See `verifyDataDir`, with the tables of plugins. */
export async function* verifyDataDir(path: string, signal: AbortSignal): AsyncGenerator<VerifyEvent> {
  const verify = await import('./verify-storage.js')
  yield* verify.verifyDataDir(path, { parts: await parts(), signal })
}

/** See `moveService`, with the tables of plugins. */
export async function moveService(options: Omit<MoveOptions, 'parts' | keyof AddressKinds>): Promise<MoveResult> {
  const move = await import('./move/move.js')
  return move.moveService({ ...options, parts: await parts(), ...addressKindsOf(installed().plugins) })
}
