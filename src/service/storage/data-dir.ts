/**
 * The data directory: its layout, and the lock that keeps a second server out.
 *
 *     lock.sqlite3            held exclusively while a server runs
 *     trainyard.sqlite3       rows
 *     blobs/sha256/ab/cdef…   immutable bytes
 *     blobs/incoming/         half-written bytes, emptied at start
 *     prepared/<digest>/      base weights in the form the runtime maps
 *     base-models/            built-in models
 *     api-key                 the first key, readable by its owner only
 *
 * The lock is an SQLite exclusive transaction on a file of its own: the operating system drops it when the process dies,
 * however it dies, so there is no stale lock to clean up.
 */
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import SqliteDatabase from 'better-sqlite3'
import { ConflictError, StorageError } from '#base/errors.js'

/** A locked data directory. */
export interface DataDir {
  readonly path: string
  readonly databasePath: string
  readonly blobsPath: string
  readonly preparedPath: string
  readonly baseModelsPath: string
  readonly apiKeyPath: string
  /** Releases the lock, so that another server can use the directory. */
  unlock(): void
}

/**
 * Creates the directory if needed (mode 0700) and locks it.
 *
 * @throws {ConflictError} `data_dir_locked` if another process uses it
 * @throws {StorageError} `data_dir_unusable` if it cannot be created or written
 */
export async function openDataDir(path: string): Promise<DataDir> {
  const root = resolve(path)
  const folders = ['blobs/incoming', 'blobs/sha256', 'prepared', 'base-models']
  try {
    await mkdir(root, { recursive: true, mode: 0o700 })
    for (const folder of folders) await mkdir(join(root, folder), { recursive: true })
  } catch (cause) {
    throw new StorageError('data_dir_unusable', `data directory "${root}" cannot be written`, {
      hint: 'choose another --data-dir',
      cause,
    })
  }
  const lock = acquireLock(join(root, 'lock.sqlite3'), root)
  return {
    path: root,
    databasePath: join(root, 'trainyard.sqlite3'),
    blobsPath: join(root, 'blobs'),
    preparedPath: join(root, 'prepared'),
    baseModelsPath: join(root, 'base-models'),
    apiKeyPath: join(root, 'api-key'),
    unlock: () => lock.close(),
  }
}

function acquireLock(lockPath: string, root: string): SqliteDatabase.Database {
  let lock: SqliteDatabase.Database | null = null
  try {
    lock = new SqliteDatabase(lockPath, { timeout: 0 })
    lock.exec('BEGIN EXCLUSIVE')
    return lock
  } catch (cause) {
    lock?.close()
    if (cause instanceof SqliteDatabase.SqliteError && cause.code.startsWith('SQLITE_BUSY')) {
      throw new ConflictError('data_dir_locked', `data directory "${root}" is used by another server`, {
        hint: 'stop that server, or choose another --data-dir',
        cause,
      })
    }
    throw new StorageError('data_dir_unusable', `data directory "${root}" cannot be locked`, {
      hint: 'choose a --data-dir on a local, writable disk',
      cause,
    })
  }
}
