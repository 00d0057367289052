/**
 * The data directory: its layout, and the lock that keeps a second server out.
 *
 *     lock.sqlite3            held exclusively while a server runs
 *     trainyard.sqlite3       rows
 *     blobs/sha256/ab/cdef…   immutable bytes
 *     blobs/incoming/         half-written bytes, emptied at start
 *     prepared/<digest>/      base weights in the form the runtime maps; what a crash left half-written is dropped at start
 *     base-models/            built-in models
 *     api-key                 the first key, readable by its owner only; one that another took the place of is api-key.kept-<n>
 *     database-mark           which database this directory belongs to, and how far that was
 *     server-id               by which other servers on the same database know the one of this directory
 *     cache/                  copies of blobs that are kept elsewhere, with --blob-store
 *     backup-<pid>/           while a backup is made
 *     restore-incomplete      while a backup is restored; servers keep away
 *     move-incomplete         while rows and blobs are moved here from elsewhere; servers keep away
 *
 * Keys, conversations and weights are their owner's alone: folders are 0700 and files 0600, also those that were there
 * before with wider modes. Only what is listed here is touched, for people name folders that hold other things too.
 *
 * The lock is an SQLite exclusive transaction on a file of its own: the operating system drops it when the process dies,
 * however it dies, so there is no stale lock to clean up.
 */
import { chmod, open, readdir, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type AppError, ConflictError, StorageError, toFullDiskError } from '#base/errors/errors.js'
import { createFolders } from '#base/util/create-folders.js'
import { removeTree } from '#base/util/move-file.js'
import { assertSqliteLoads, isSqliteError, openSqlite, type Sqlite } from './sqlite.js'

/** A locked data directory. */
export interface DataDir {
  readonly path: string
  readonly databasePath: string
  readonly blobsPath: string
  /** Made when it is needed. */
  readonly cachePath: string
  readonly preparedPath: string
  readonly baseModelsPath: string
  readonly apiKeyPath: string
  /** Takes other people's rights from what was written since it was opened. @returns false if the file system refuses */
  makePrivate(): Promise<boolean>
  /** Releases the lock, so that another server can use the directory. */
  unlock(): void
}

/** Says which database the directory belongs to (`upkeep/ownership.ts`). */
export const MARK_FILE = 'database-mark'
/** Says by which name the server of this directory is known to others on its database. */
export const SERVER_ID_FILE = 'server-id'

const FOLDERS = ['blobs', 'prepared', 'base-models']
const MADE_FOLDERS = ['blobs/incoming', 'blobs/sha256', 'prepared', 'base-models']
const FILES = [
  'lock.sqlite3',
  'trainyard.sqlite3',
  'lock.sqlite3-journal',
  'trainyard.sqlite3-wal',
  'trainyard.sqlite3-shm',
  'api-key',
  MARK_FILE,
  SERVER_ID_FILE,
]

/** Stands in a directory that is not whole yet. */
export const RESTORE_MARKER = 'restore-incomplete'
/** The same while it is the target of a move; holds the id of the database that is moved. */
export const MOVE_MARKER = 'move-incomplete'

/**
 * Creates the directory if needed, takes other people's rights from it, and locks it.
 *
 * @param options.isRestoring open it although it is not whole. Default false
 * @throws {ConflictError} `data_dir_locked` if another process uses it
 * @throws {StorageError} `data_dir_incomplete` while a backup is restored into it, or if that was interrupted
 * @throws {StorageError} `data_dir_unusable` if its path is too long, or it cannot be created or written; `sqlite_unusable` before anything is;
 *   {AppError} `disk_full`
 */
export async function openDataDir(path: string, options: { readonly isRestoring?: boolean } = {}): Promise<DataDir> {
  assertSqliteLoads()
  const root = resolve(path)
  assertShortEnough(root)
  let wasOpenToOthers = false
  try {
    for (const folder of ['', ...MADE_FOLDERS]) await createFolders(join(root, folder), 0o700)
    // SQLite gives a file and its companions the mode the file has; made here it is private from its first byte
    for (const name of FILES.slice(0, 2)) await (await open(join(root, name), 'a', 0o600)).close()
    wasOpenToOthers = !(await isPrivate(root))
    await setMode(root, 0o700)
  } catch (cause) {
    throw unwritable(root, cause)
  }
  if (options.isRestoring !== true) await assertWhole(root)
  const lock = acquireLock(join(root, 'lock.sqlite3'))
  try {
    await dropUnfinished(join(root, 'prepared'), join(root, 'base-models'))
  } catch (cause) {
    lock.close()
    throw unwritable(root, cause)
  }
  return {
    path: root,
    databasePath: join(root, 'trainyard.sqlite3'),
    blobsPath: join(root, 'blobs'),
    cachePath: join(root, 'cache'),
    preparedPath: join(root, 'prepared'),
    baseModelsPath: join(root, 'base-models'),
    apiKeyPath: join(root, 'api-key'),
    // blobs are written 0600, and there may be very many
    makePrivate: () => makePrivate(root, wasOpenToOthers ? FOLDERS : FOLDERS.slice(1)),
    unlock: () => lock.close(),
  }
}

async function assertWhole(root: string): Promise<void> {
  const isThere = async (name: string): Promise<boolean> => (await stat(join(root, name)).catch(() => null)) !== null
  if (await isThere(RESTORE_MARKER)) {
    throw new StorageError('data_dir_incomplete', `data directory "${root}" is not whole: restoring it did not end`, {
      hint: 'run trainyard restore with the same backup again',
    })
  }
  if (await isThere(MOVE_MARKER)) {
    throw new StorageError('data_dir_incomplete', `data directory "${root}" is not whole: the move to it did not end`, {
      hint: 'run trainyard move with the same source again',
    })
  }
}

/**
 * Keeps servers out of a directory that is only read, and changes nothing there. One that was never served, or lies on a disk that nobody can
 * write, needs no lock.
 *
 * @returns releases it
 * @throws {ConflictError} `data_dir_locked`
 */
export async function lockUnchanged(path: string): Promise<() => void> {
  assertSqliteLoads()
  const lockPath = join(resolve(path), 'lock.sqlite3')
  if ((await stat(lockPath).catch(() => null)) === null) return () => undefined
  try {
    const lock = acquireLock(lockPath)
    return () => lock.close()
  } catch (error) {
    const { cause } = error instanceof Error ? error : {}
    if (isSqliteError(cause) && /^SQLITE_(READONLY|CANTOPEN)/.test(cause.code)) return () => undefined
    throw error
  }
}

/** SQLite opens no file whose path, with the ending of its journal, has more bytes; the error it gives names something else. */
const LONGEST_PATH_BYTES = 512

function assertShortEnough(root: string): void {
  const spareBytes = LONGEST_PATH_BYTES - 1 - Buffer.byteLength(join(root, 'trainyard.sqlite3-journal'))
  if (spareBytes >= 0) return
  const bytes = Buffer.byteLength(root)
  const problem = `the path of data directory "${root}" has ${bytes} bytes, and SQLite opens files below at most ${bytes + spareBytes}`
  throw new StorageError('data_dir_unusable', problem, { hint: 'choose a --data-dir with a shorter path' })
}

/** Takes away what `openDataDir` made in a directory whose lock was released; folders that hold something stay. */
export async function removeEmptyDataDir(root: string): Promise<void> {
  for (const name of FILES.filter((file) => file.startsWith('lock.'))) await rm(join(root, name), { force: true })
  for (const name of [...MADE_FOLDERS, 'blobs']) await rmdir(join(root, name)).catch(() => undefined)
}

/** The error for a data directory in which nothing can be made. */
export function unwritable(root: string, cause: unknown): AppError {
  const fullDisk = toFullDiskError(cause, `data directory "${root}"`)
  if (fullDisk !== null) return fullDisk
  return new StorageError('data_dir_unusable', `data directory "${root}" cannot be written`, {
    hint: 'choose another --data-dir, one that this user may create or write',
    cause,
  })
}

/** The error for a data directory that is no longer where it was: not to be tried again, for what is written is gone with the process. */
export function removedWhileServed(cause?: unknown): StorageError {
  const problem = 'the data directory was removed while the server runs: nothing is stored'
  return new StorageError('data_dir_removed', problem, {
    hint: 'stop the server, put the directory back, for example with trainyard restore, and start it again',
    cause,
  })
}

/** Half-written weights and graphs, which may be as large as a model; nobody writes there while the lock is taken. */
async function dropUnfinished(prepared: string, baseModels: string): Promise<void> {
  for (const entry of await readdir(prepared, { recursive: true, withFileTypes: true })) {
    if (entry.isFile() && entry.name.endsWith('.tmp')) await rm(join(entry.parentPath, entry.name), { force: true })
  }
  // a built-in model that was being written; what is downloaded is named otherwise and goes on where it was
  for (const name of await readdir(baseModels)) {
    if (/\.[\da-f-]{36}\.partial$/.test(name)) await removeTree(join(baseModels, name))
  }
}

async function makePrivate(root: string, folders: readonly string[]): Promise<boolean> {
  const results = [await setMode(root, 0o700)]
  for (const name of FILES) results.push(await setMode(join(root, name), 0o600))
  for (const name of folders) {
    results.push(await setMode(join(root, name), 0o700))
    for (const entry of await readdir(join(root, name), { recursive: true, withFileTypes: true })) {
      if (entry.isSymbolicLink()) continue
      results.push(await setMode(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o700 : 0o600))
    }
  }
  return results.every((result) => result)
}

/** Takes every right of group and others. @returns false if that cannot be done; a missing file needs nothing */
async function setMode(path: string, mode: number): Promise<boolean> {
  try {
    if (await isPrivate(path)) return true
    await chmod(path, mode)
    return await isPrivate(path)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ENOENT'
  }
}

/** Windows has no such modes: rights come from the folder above. */
async function isPrivate(path: string): Promise<boolean> {
  return process.platform === 'win32' || ((await stat(path)).mode & 0o077) === 0
}

function acquireLock(lockPath: string): Sqlite {
  const root = dirname(lockPath)
  let lock: Sqlite | null = null
  try {
    lock = openSqlite(lockPath, { timeout: 0 })
    lock.exec('BEGIN EXCLUSIVE')
    return lock
  } catch (cause) {
    lock?.close()
    if (isSqliteError(cause) && cause.code.startsWith('SQLITE_BUSY')) {
      throw new ConflictError('data_dir_locked', `data directory "${root}" is used by another server`, {
        hint: 'stop that server, or choose another --data-dir',
        cause,
      })
    }
    const fullDisk = toFullDiskError(cause, `data directory "${root}"`)
    if (fullDisk !== null) throw fullDisk
    throw new StorageError('data_dir_unusable', `data directory "${root}" cannot be locked`, {
      hint: 'choose a --data-dir on a local, writable disk',
      cause,
    })
  }
}
