/**
 * Immutable bytes by content: `blobs/sha256/ab/cdef…`.
 *
 * A blob is written under a temporary name, synced, and renamed into place, so a name that exists always holds all of its
 * bytes. Equal bytes are stored once. Which of them may go is not known here: the sweeper decides (`operations/blob-sweeper.ts`).
 */
import { createHash } from 'node:crypto'
import { type ReadStream, statSync, unlinkSync } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AppError, InvalidRequestError, StorageError, toOpenFilesError } from '#base/errors/errors.js'
import { syncFolder } from '#base/sync-folder.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { removedWhileServed } from './data-dir.js'
import { toStorageError } from './database.js'

/** What was stored. */
export interface BlobRef {
  readonly sha256: string
  readonly sizeBytes: number
}

/** Writes one blob piece by piece. */
export interface BlobWriter {
  /** @throws {AppError} `disk_full` when the disk is, `data_dir_removed` when the folder is gone */
  write(chunk: Uint8Array | string): Promise<void>
  /**
   * Syncs, publishes and returns the digest.
   *
   * @param expectedSha256 refuse other bytes with `digest_mismatch`
   */
  commit(expectedSha256?: string): Promise<BlobRef>
  /** Drops what was written; harmless after `commit`. */
  abort(): Promise<void>
}

export interface BlobStore {
  createWriter(): Promise<BlobWriter>
  /** An unused path beside the blobs, for a file that may become one; what is left there is removed at the next start. */
  temporaryPath(): string
  /** Publishes a file below `temporaryPath` whose digest is known: syncs and renames it. */
  adopt(path: string, ref: BlobRef): Promise<BlobRef>
  /** Stores all bytes of `source`; refuses more than `maxBytes` with `request_too_large`. */
  put(source: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array>, options?: PutOptions): Promise<BlobRef>
  /** Absolute path of a blob, for processes that read it themselves. */
  pathOf(sha256: string): string
  /** @throws {StorageError} `blob_missing` if the bytes are not there */
  openRead(sha256: string): Promise<ReadStream>
  has(sha256: string): Promise<boolean>
  /** Digests of all files that are named as blobs are, also damaged ones. */
  list(): AsyncGenerator<string>
  /** Null if there is no such file. */
  factsOf(sha256: string): Promise<BlobFacts | null>
  /**
   * Deletes a blob unless it was written within `graceMs`, by its file's time and by this process's own count, which a clock that is
   * set forward does not change. Looks and deletes in one go: a writer of the same bytes comes before or after.
   *
   * @returns whether it is gone
   */
  removeOlderThan(sha256: string, graceMs: number): boolean
}

/** What a blob's file says. */
export interface BlobFacts {
  readonly sizeBytes: number
  readonly modifiedAtMs: number
}

export interface PutOptions {
  readonly maxBytes?: number
  readonly expectedSha256?: string
}

const FLUSH_BYTES = 1 << 20

/** Opens the store below `root`, which `openDataDir` has made; drops what a crash left half-written. */
export async function createBlobStore(root: string, clock: Clock = systemClock): Promise<BlobStore> {
  const incoming = join(root, 'incoming')
  await removeTree(incoming)
  await mkdir(incoming, { recursive: true, mode: 0o700 })
  let counter = 0
  /** When this process last wrote a blob, by the monotonic clock. */
  const writtenAtMs = new Map<string, number>()

  const pathOf = (sha256: string): string => {
    // digests come from our own rows, but a path is never built from an unchecked text
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw new StorageError('invalid_digest', 'a blob digest is not 64 hex digits')
    return join(root, 'sha256', sha256.slice(0, 2), sha256.slice(2))
  }

  function temporaryPath(): string {
    counter += 1
    return join(incoming, `${process.pid}-${counter}`)
  }

  async function createWriter(): Promise<BlobWriter> {
    const temporary = temporaryPath()
    const file = await guardDisk(() => open(temporary, 'wx', 0o600))
    return createFileWriter(file, temporary, publishBlob)
  }

  async function publishBlob(file: FileHandle, temporary: string, sha256: string): Promise<void> {
    writtenAtMs.set(sha256, clock.monotonicMs())
    await publish(file, temporary, pathOf(sha256))
  }

  function removeOlderThan(sha256: string, graceMs: number): boolean {
    const writtenMs = writtenAtMs.get(sha256)
    if (writtenMs !== undefined && clock.monotonicMs() - writtenMs < graceMs) return false
    const path = pathOf(sha256)
    const facts = statSync(path, { throwIfNoEntry: false })
    if (facts !== undefined) {
      if (clock.nowMs() - facts.mtimeMs < graceMs) return false
      unlinkSync(path)
    }
    writtenAtMs.delete(sha256)
    return true
  }

  return {
    createWriter,
    temporaryPath,
    adopt: async (path, { sha256, sizeBytes }) => {
      await publishBlob(await guardDisk(() => open(path, 'r+')), path, sha256)
      return { sha256, sizeBytes }
    },
    pathOf,
    openRead: async (sha256) => {
      try {
        // opened before anybody answers: a missing file is an error, not a torn answer
        return (await open(pathOf(sha256), 'r')).createReadStream()
      } catch (cause) {
        if (toOpenFilesError(cause) !== null) throw toOpenFilesError(cause)
        throw new StorageError('blob_missing', `blob ${sha256.slice(0, 12)} cannot be read`, { cause })
      }
    },
    has: async (sha256) => (await factsOf(pathOf(sha256))) !== null,
    list: () => listBlobs(root),
    factsOf: (sha256) => factsOf(pathOf(sha256)),
    removeOlderThan,
    put: async (source, options = {}) => {
      const writer = await createWriter()
      try {
        let total = 0
        for await (const chunk of source) {
          total += chunk.length
          if (options.maxBytes !== undefined && total > options.maxBytes) throw tooLarge(options.maxBytes)
          await writer.write(chunk)
        }
        return await writer.commit(options.expectedSha256)
      } finally {
        await writer.abort()
      }
    },
  }
}

function createFileWriter(
  file: FileHandle,
  temporary: string,
  publishBlob: (file: FileHandle, temporary: string, sha256: string) => Promise<void>,
): BlobWriter {
  const hash = createHash('sha256')
  let pending: Buffer[] = []
  let pendingBytes = 0
  let sizeBytes = 0
  let isOpen = true

  async function flush(): Promise<void> {
    if (pendingBytes === 0) return
    const bytes = pending.length === 1 ? pending[0] : Buffer.concat(pending)
    pending = []
    pendingBytes = 0
    if (bytes !== undefined) await guardDisk(() => file.writeFile(bytes))
  }

  async function abort(): Promise<void> {
    if (!isOpen) return
    isOpen = false
    await file.close()
    await rm(temporary, { force: true })
  }

  return {
    abort,
    write: async (chunk) => {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, 'utf8') : Buffer.from(chunk)
      hash.update(bytes)
      sizeBytes += bytes.length
      pending.push(bytes)
      pendingBytes += bytes.length
      if (pendingBytes >= FLUSH_BYTES) await flush()
    },
    commit: async (expectedSha256) => {
      await flush()
      const sha256 = hash.digest('hex')
      if (expectedSha256 !== undefined && expectedSha256 !== sha256) {
        await abort()
        throw new InvalidRequestError(
          'digest_mismatch',
          `the body has digest ${sha256}, the header promised ${expectedSha256}`,
        )
      }
      isOpen = false
      await publishBlob(file, temporary, sha256)
      return { sha256, sizeBytes }
    },
  }
}

/**
 * Closes `file` and moves it to its final name, also over a blob that exists: should the disk have damaged it, the same bytes
 * make it whole again. Whatever happens, its old name is gone.
 */
async function publish(file: FileHandle, temporary: string, target: string): Promise<void> {
  try {
    await guardDisk(async () => {
      await file.sync()
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      await moveFile(temporary, target)
      await syncFolder(dirname(target))
    })
  } finally {
    await file.close()
    await rm(temporary, { force: true })
  }
}

/** Digests of all blobs below `root`, without opening a store: what is half-written stays. */
export async function* listBlobs(root: string): AsyncGenerator<string> {
  const folder = join(root, 'sha256')
  for (const prefix of await readdir(folder)) {
    if (!/^[0-9a-f]{2}$/.test(prefix)) continue
    for (const rest of await readdir(join(folder, prefix))) if (/^[0-9a-f]{62}$/.test(rest)) yield prefix + rest
  }
}

async function factsOf(path: string): Promise<BlobFacts | null> {
  const facts = await stat(path).catch(() => null)
  return facts?.isFile() === true ? { sizeBytes: facts.size, modifiedAtMs: facts.mtimeMs } : null
}

async function guardDisk<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action()
  } catch (cause) {
    // all that is opened or renamed here lies in folders that the start has made
    const isGone = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    throw isGone ? removedWhileServed(cause) : (toStorageError(cause) ?? cause)
  }
}

function tooLarge(maxBytes: number): AppError {
  return new AppError('too_large', 'request_too_large', `the body is larger than ${maxBytes} bytes`)
}
