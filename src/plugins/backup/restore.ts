/**
 * A backup file → a data directory. Every byte is checked against its digest before the directory counts as one: until then a
 * marker in it keeps servers away, and a restore that was killed is begun again.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, rm, rmdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { AppError, ConflictError, InvalidRequestError, NotFoundError, StorageError } from '#base/errors/errors.js'
import { syncFolder } from '#base/sync-folder.js'
import { createFolders } from '#base/util/create-folders.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { type DataDir, openDataDir, RESTORE_MARKER, removeEmptyDataDir, unwritable } from '#service/storage/data-dir.js'
import { toStorageError } from '#service/storage/database.js'
import type { SchemaPart } from '#service/storage/schema-part.js'
import {
  type BackupEnd,
  type BackupManifest,
  DATABASE_ENTRY,
  digestOfBlobEntry,
  END_ENTRY,
  invalid,
  KEY_ENTRY,
  MANIFEST_ENTRY,
  parseEnd,
  parseManifest,
} from './format.js'
import { assertOwnPrograms } from './storage/own-programs.js'
import { readSnapshot } from './storage/snapshot.js'
import { readTar, type TarEntry } from './storage/tar.js'

export interface RestoreResult extends BackupEnd {
  readonly dataDir: string
  readonly program: string
  readonly createdAt: string
  readonly schema: string
  /** Where the blobs are kept, which were not in the file then; null: they were in it. */
  readonly blobStore: string | null
}

/** Largest manifest or end, bytes: what is damaged stands in it by digest. */
const MAX_TEXT_BYTES = 64 * 1024 ** 2

/**
 * Restores `file` into the directory `path`, which must be empty or not exist.
 *
 * @param parts what plugins add to the database
 * @throws {ConflictError} `data_dir_not_empty`, `data_dir_locked`; {NotFoundError} `file_not_found`;
 *   {InvalidRequestError} `file_unreadable`
 * @throws {StorageError} `archive_invalid`, `archive_truncated`, `archive_newer`, `archive_corrupt`, `database_newer`,
 *   `database_foreign`; nothing is
 *   left in the directory then
 */
export async function restoreBackup(file: string, path: string, parts: readonly SchemaPart[]): Promise<RestoreResult> {
  const root = resolve(path)
  const wasThere = await checkTarget(root)
  await checkFile(file)
  try {
    await createFolders(root, 0o700)
    // before anything else is made there: a restore that is killed at any moment can be begun again
    await (await open(join(root, RESTORE_MARKER), 'w', 0o600)).close()
  } catch (cause) {
    throw unwritable(root, cause)
  }
  const dataDir = await openDataDir(root, { isRestoring: true })
  try {
    await clear(root)
    const result = await unpack(readTar(createReadStream(file)), root, parts)
    await dataDir.makePrivate()
    // what was renamed is there before the marker is not
    await syncFolder(root)
    await rm(join(root, RESTORE_MARKER))
    dataDir.unlock()
    return { ...result, dataDir: root }
  } catch (error) {
    // what cannot be cleared stays behind the marker, which the next restore knows; why there is one is said first
    await leave(root, dataDir, wasThere).catch(() => undefined)
    throw toStorageError(error) ?? error
  }
}

/** The next restore is to find the directory as this one did. */
async function leave(root: string, dataDir: DataDir, wasThere: boolean): Promise<void> {
  try {
    await clear(root)
  } finally {
    dataDir.unlock()
  }
  await removeEmptyDataDir(root)
  await rm(join(root, RESTORE_MARKER), { force: true })
  if (!wasThere) await rmdir(root).catch(() => undefined)
}

async function checkFile(file: string): Promise<void> {
  const hint = 'name a file that trainyard backup has written'
  try {
    const handle = await open(file)
    const isFolder = (await handle.stat()).isDirectory()
    await handle.close()
    if (isFolder) throw new InvalidRequestError('file_unreadable', `"${file}" is a folder, expected a file`, { hint })
  } catch (cause) {
    if (cause instanceof AppError) throw cause
    const { code, message } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new NotFoundError('file_not_found', `"${file}" does not exist`, { hint, cause })
    throw new InvalidRequestError('file_unreadable', `"${file}" cannot be read: ${message}`, { hint, cause })
  }
}

/** What a disk's own folder may hold. */
const HARMLESS = new Set(['lost+found'])

/** @returns whether the directory is there */
async function checkTarget(root: string): Promise<boolean> {
  let names: readonly string[]
  try {
    names = await readdir(root)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw unwritable(root, cause)
  }
  if (names.every((name) => HARMLESS.has(name)) || names.includes(RESTORE_MARKER)) return true
  throw new ConflictError('data_dir_not_empty', `"${root}" is not empty`, {
    hint: 'restore into a new directory, or move the old one away first',
  })
}

/** Removes what a restore makes. */
async function clear(root: string): Promise<void> {
  for (const name of [DATABASE_ENTRY, `${DATABASE_ENTRY}-wal`, `${DATABASE_ENTRY}-shm`, KEY_ENTRY, 'blobs/sha256']) {
    await removeTree(join(root, name))
  }
}

async function unpack(
  entries: AsyncIterable<TarEntry>,
  root: string,
  parts: readonly SchemaPart[],
): Promise<Omit<RestoreResult, 'dataDir'>> {
  let manifest: BackupManifest | null = null
  let end: BackupEnd | null = null
  const damaged: string[] = []
  const restored = new Set<string>()
  for await (const entry of entries) {
    if (end !== null) throw invalid('entries follow its last one')
    if (entry.name === MANIFEST_ENTRY && manifest === null) manifest = parseManifest(await readText(entry))
    else if (manifest === null) throw invalid('it does not begin with its manifest')
    else if (entry.name === END_ENTRY) end = parseEnd(await readText(entry))
    else if (entry.name === DATABASE_ENTRY || entry.name === KEY_ENTRY) {
      if ((await writeEntry(entry, join(root, entry.name))) !== manifest.digests[entry.name]) throw corrupt(entry.name)
      restored.add(entry.name)
    } else {
      const sha256 = digestOfBlobEntry(entry.name)
      if (sha256 === null) throw invalid(`entry "${entry.name.slice(0, 100)}" does not belong into one`)
      if (!(await writeBlob(entry, join(root, entry.name), sha256))) damaged.push(sha256)
      restored.add(sha256)
    }
  }
  if (manifest === null || end === null || !restored.has(DATABASE_ENTRY)) {
    throw new StorageError('archive_truncated', 'the backup ends before its last entry', {
      hint: 'copy the backup file again; nothing was restored',
    })
  }
  const known = new Set(end.damaged)
  const broken = damaged.find((sha256) => !known.has(sha256))
  if (broken !== undefined) throw corrupt(`blob ${broken}`)
  const { blobs, schema, blobStore } = await readSnapshot(join(root, DATABASE_ENTRY), parts)
  await assertOwnPrograms(join(root, DATABASE_ENTRY), schema, parts)
  const lost = (blobStore === null ? [...blobs] : []).find((sha256) => !restored.has(sha256) && !known.has(sha256))
  if (lost !== undefined) throw invalid(`blob ${lost}, which the database names, is not in it`)
  return { ...end, program: manifest.program, createdAt: manifest.created_at, schema, blobStore }
}

async function readText(entry: TarEntry): Promise<string> {
  if (entry.sizeBytes > MAX_TEXT_BYTES) throw invalid(`entry "${entry.name}" is too large`)
  const chunks: Uint8Array[] = []
  for await (const chunk of entry.body) chunks.push(Uint8Array.from(chunk))
  return Buffer.concat(chunks).toString('utf8')
}

/** @returns false, with nothing written, if the bytes are not those of the digest */
async function writeBlob(entry: TarEntry, path: string, sha256: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const partial = `${path}.partial`
  const isWhole = (await writeEntry(entry, partial)) === sha256
  if (isWhole) await moveFile(partial, path)
  else await rm(partial)
  return isWhole
}

/** @returns the digest of what was written */
async function writeEntry(entry: TarEntry, path: string): Promise<string> {
  const hash = createHash('sha256')
  const file = await open(path, 'w', 0o600)
  try {
    for await (const chunk of entry.body) {
      hash.update(chunk)
      await file.writeFile(chunk)
    }
    await file.sync()
  } finally {
    await file.close()
  }
  return hash.digest('hex')
}

function corrupt(what: string): AppError {
  return new StorageError('archive_corrupt', `${what} of the backup is not what was saved: its digest differs`, {
    hint: 'copy the backup file again; nothing was restored',
  })
}
