/**
 * A data directory as one file, also while a server works in it: the database as of one moment, and every blob it
 * names.
 *
 * Blobs never change, but the sweeper deletes those that are no longer needed. So all blobs are hard-linked beside the
 * copy of the database first, which takes a moment, and are written to the file from there. If a blob went away
 * meanwhile, the copy is taken again.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { copyFile, link, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import { assertNoFolder, toWriteError } from '#base/errors/file-errors.js'
import { syncFolder } from '#base/sync-folder.js'
import { systemClock } from '#base/util/clock.js'
import { createFolders } from '#base/util/create-folders.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { packageVersion } from '#base/util/package-root.js'
import { toStorageError } from '#service/storage/database.js'
import type { SchemaPart } from '#service/storage/schema-part.js'
import {
  type BackupEnd,
  type BackupManifest,
  blobEntry,
  DATABASE_ENTRY,
  END_ENTRY,
  FORMAT,
  FORMAT_VERSION,
  KEY_ENTRY,
  MANIFEST_ENTRY,
} from './format.js'
import { copyDatabase, readSnapshot, type SnapshotFacts } from './storage/snapshot.js'
import { type TarEntry, writeTar } from './storage/tar.js'

export interface BackupResult extends BackupEnd {
  readonly file: string
  readonly sizeBytes: number
  readonly schema: string
  /** Where the blobs are kept, which are not in the file then; null: they are in it. */
  readonly blobStore: string | null
}

/** How often the copy is taken again because a blob it names was swept meanwhile. */
const ATTEMPTS = 5
/** After this long without a write, what lies beside the target is nobody's. */
const ABANDONED_MS = 3_600_000

export interface BackupOptions {
  /** What plugins add to the database. */
  readonly parts: readonly SchemaPart[]
  readonly isReplacing?: boolean
  readonly signal?: AbortSignal
}

/**
 * Writes a backup of the data directory `path` to `file`, readable by its owner only. The file appears when it is whole.
 *
 * @param options.isReplacing write over a file that exists. Default false
 * @param options.signal stops it: nothing is left behind
 * @throws {NotFoundError} `data_dir_not_found`; {ConflictError} `file_exists`; {InvalidRequestError} `file_unwritable`;
 *   {AppError} `disk_full`
 */
export async function createBackup(path: string, file: string, options: BackupOptions): Promise<BackupResult> {
  const root = resolve(path)
  const target = resolve(file)
  const databasePath = join(root, DATABASE_ENTRY)
  if (!(await exists(databasePath))) {
    throw new NotFoundError('data_dir_not_found', `"${root}" is not the data directory of a service`, {
      hint: 'name it with --data-dir, and run this as a user who may read it',
    })
  }
  // a start makes the file before it is used, and a database has a page at least
  if ((await stat(databasePath)).size === 0) {
    throw new NotFoundError('data_dir_not_found', `"${root}" holds no rows: a backup has those of a data directory`, {
      hint: 'of a service that was started with --database, save the rows with pg_dump, then the blobs',
    })
  }
  await assertNoFolder(target, `name a file in it: ${join(target, 'trainyard.tar')}`)
  if (options.isReplacing !== true && (await exists(target))) {
    throw new ConflictError('file_exists', `"${target}" exists`, { hint: 'choose another file, or --force' })
  }
  await removeLeftovers(root)
  const stage = join(root, `backup-${process.pid}`)
  try {
    const { facts, missing } = await takeStage(root, stage, options.parts).catch((error: unknown) => {
      throw toStorageError(error) ?? error
    })
    const end = { blobs: 0, bytes: 0, damaged: [...missing] }
    const sizeBytes = await writeFileOf(writeTar(entriesOf(stage, facts, end)), target, options.signal)
    return { ...end, file: target, sizeBytes, schema: facts.schema, blobStore: facts.blobStore }
  } finally {
    await removeTree(stage)
  }
}

/**
 * Writes beside the target first, under a name of this process: two that save to one name at once do not write into each other.
 *
 * @returns its size, bytes
 */
async function writeFileOf(
  entries: AsyncIterable<Uint8Array>,
  target: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  const partial = `${target}.${process.pid}.partial`
  try {
    await createFolders(dirname(target))
    await removeAbandoned(target)
    const file = createWriteStream(partial, { mode: 0o600, flush: true })
    await pipeline(Readable.from(entries), file, signal === undefined ? {} : { signal })
    await moveFile(partial, target)
    await syncFolder(dirname(target))
    return (await stat(target)).size
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined)
    signal?.throwIfAborted()
    throw toWriteError(error, target) ?? toStorageError(error) ?? error
  }
}

/** What a backup to this name that was killed has left; one at work writes all the time. */
async function removeAbandoned(target: string): Promise<void> {
  const folder = dirname(target)
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`${basename(target)}.`) || !/\.\d+\.partial$/.test(name)) continue
    const facts = await stat(join(folder, name)).catch(() => null)
    if (facts !== null && systemClock.nowMs() - facts.mtimeMs > ABANDONED_MS)
      await rm(join(folder, name), { force: true })
  }
}

/** The database's copy and links to its blobs in a folder of their own. */
async function takeStage(
  root: string,
  stage: string,
  parts: readonly SchemaPart[],
): Promise<{ readonly facts: SnapshotFacts; readonly missing: readonly string[] }> {
  for (let attempt = 1; ; attempt += 1) {
    await removeTree(stage)
    await mkdir(stage, { mode: 0o700 })
    await copyDatabase(join(root, DATABASE_ENTRY), join(stage, DATABASE_ENTRY))
    const facts = await readSnapshot(join(stage, DATABASE_ENTRY), parts)
    const missing: string[] = []
    // what is kept in a bucket has versions and copies of its own there
    for (const sha256 of facts.blobStore === null ? facts.blobs : []) {
      if (!(await linkOrCopy(join(root, blobEntry(sha256)), join(stage, sha256)))) missing.push(sha256)
    }
    // swept since the copy was taken, unless they are missing again and again
    if (missing.length === 0 || attempt === ATTEMPTS) {
      await copyFile(join(root, KEY_ENTRY), join(stage, KEY_ENTRY)).catch(() => undefined)
      return { facts, missing }
    }
  }
}

/** @returns false if there is no such file */
async function linkOrCopy(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch {
    // a file system without links
  }
  try {
    await copyFile(from, to)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
}

/** @param end filled while the entries are read */
async function* entriesOf(
  stage: string,
  facts: SnapshotFacts,
  end: { blobs: number; bytes: number; damaged: string[] },
): AsyncGenerator<TarEntry> {
  const files = [DATABASE_ENTRY, ...((await exists(join(stage, KEY_ENTRY))) ? [KEY_ENTRY] : [])]
  const digests: Record<string, string> = {}
  for (const name of files) digests[name] = await digestOfFile(join(stage, name))
  const manifest: BackupManifest = {
    format: FORMAT,
    version: FORMAT_VERSION,
    program: packageVersion(),
    schema: facts.schema,
    blob_store: facts.blobStore,
    created_at: new Date(systemClock.nowMs()).toISOString(),
    digests,
  }
  yield textEntry(MANIFEST_ENTRY, manifest)
  for (const name of files) {
    const sizeBytes = (await stat(join(stage, name))).size
    yield { name, sizeBytes, body: createReadStream(join(stage, name)) }
  }
  const missing = new Set(end.damaged)
  for (const sha256 of facts.blobStore === null ? [...facts.blobs].sort() : []) {
    if (missing.has(sha256)) continue
    const path = join(stage, sha256)
    const sizeBytes = (await stat(path)).size
    const hash = createHash('sha256')
    yield { name: blobEntry(sha256), sizeBytes, body: tapped(createReadStream(path, { highWaterMark: 1 << 20 }), hash) }
    end.blobs += 1
    end.bytes += sizeBytes
    if (hash.digest('hex') !== sha256) end.damaged.push(sha256)
  }
  yield textEntry(END_ENTRY, end satisfies BackupEnd)
}

function textEntry(name: string, value: object): TarEntry {
  const bytes = Buffer.from(`${JSON.stringify(value, null, 2)}\n`)
  return { name, sizeBytes: bytes.length, body: Readable.from([bytes]) }
}

async function* tapped(source: AsyncIterable<Buffer>, hash: ReturnType<typeof createHash>): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    hash.update(chunk)
    yield chunk
  }
}

async function digestOfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk)
  return hash.digest('hex')
}

/** What a backup that was killed has left. */
async function removeLeftovers(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    const pid = /^backup-(\d+)$/.exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) await removeTree(join(root, name))
  }
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null
}
