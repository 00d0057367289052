/**
 * Blobs as files of the data directory: `blobs/sha256/ab/cdef…`.
 *
 * A blob is written under a temporary name, synced, and renamed into place, so a name that exists always holds all of its
 * bytes. Equal bytes are stored once.
 */
import { createHash } from 'node:crypto'
import { createReadStream, statSync, unlinkSync } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { toOpenFilesError } from '#base/errors/errors.js'
import { syncFolder } from '#base/sync-folder.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { type BlobFacts, type BlobRef, type BlobStore, blobMissing, nameOf } from '../blobs.js'
import { createFileWriter, guardDisk, putAll } from './spool.js'

/** The store whose blobs always lie here. */
export interface LocalBlobs extends BlobStore {
  /** Absolute path of a blob, whether it is there or not. */
  pathOf(sha256: string): string
}

/** Opens the store below `root`, which `openDataDir` has made; drops what a crash left half-written. */
export async function createLocalBlobs(root: string, clock: Clock = systemClock): Promise<LocalBlobs> {
  const incoming = join(root, 'incoming')
  await removeTree(incoming)
  await mkdir(incoming, { recursive: true, mode: 0o700 })
  let counter = 0
  /** When this process last wrote a blob, by the monotonic clock. */
  const writtenAtMs = new Map<string, number>()

  const pathOf = (sha256: string): string => {
    const { folder, file } = nameOf(sha256)
    return join(root, 'sha256', folder, file)
  }

  function temporaryPath(): string {
    counter += 1
    return join(incoming, `${process.pid}-${counter}`)
  }

  const createWriter = () => createFileWriter(temporaryPath(), publishBlob)

  async function publishBlob(file: FileHandle, temporary: string, { sha256 }: BlobRef): Promise<void> {
    writtenAtMs.set(sha256, clock.monotonicMs())
    await publish(file, temporary, pathOf(sha256))
  }

  // no wait between the look and the deletion
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

  async function openRead(sha256: string): Promise<Readable> {
    const path = pathOf(sha256)
    try {
      // opened before anybody answers: a missing file is an error, not a torn answer
      return (await open(path, 'r')).createReadStream()
    } catch (cause) {
      if (toOpenFilesError(cause) !== null) throw toOpenFilesError(cause)
      throw blobMissing(sha256, cause)
    }
  }

  const put: BlobStore['put'] = async (source, options) => putAll(await createWriter(), source, options)

  return {
    createWriter,
    temporaryPath,
    adopt: async (path, { sha256, sizeBytes }) => {
      await publishBlob(await guardDisk(() => open(path, 'r+')), path, { sha256, sizeBytes })
      return { sha256, sizeBytes }
    },
    pathOf,
    localFile: async (sha256) => pathOf(sha256),
    openRead,
    has: async (sha256) => (await factsOf(pathOf(sha256))) !== null,
    list: () => listBlobs(root),
    digestOf: (sha256) => digestOfFile(pathOf(sha256)),
    factsOf: (sha256) => factsOf(pathOf(sha256)),
    removeOlderThan: async (sha256, graceMs) => removeOlderThan(sha256, graceMs),
    put,
    check: () => check({ put, openRead }),
  }
}

/**
 * Closes `file` and moves it to its final name, also over a blob that exists: should the disk have damaged it, the same bytes
 * make it whole again. Whatever happens, its old name is gone.
 */
async function publish(file: FileHandle, temporary: string, target: string): Promise<void> {
  let isMoved = false
  try {
    await guardDisk(async () => {
      await file.sync()
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      await moveFile(temporary, target)
      isMoved = true
      await syncFolder(dirname(target))
    })
  } finally {
    await file.close()
    if (!isMoved) await rm(temporary, { force: true })
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

/** Null if there is no such file. */
export async function digestOfFile(path: string): Promise<string | null> {
  const hash = createHash('sha256')
  try {
    const source = createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>
    for await (const chunk of source) hash.update(chunk)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
  return hash.digest('hex')
}

export async function factsOf(path: string): Promise<BlobFacts | null> {
  const facts = await stat(path).catch(() => null)
  return facts?.isFile() === true ? { sizeBytes: facts.size, modifiedAtMs: facts.mtimeMs } : null
}

async function check({ put, openRead }: Pick<BlobStore, 'put' | 'openRead'>): Promise<string> {
  // always the same bytes: one file, however often
  const text = 'what the system check writes\n'
  const { sha256 } = await put([Buffer.from(text)])
  if ((await buffer(await openRead(sha256))).toString() !== text) {
    throw new Error('a blob did not read back as written')
  }
  return 'a blob was written, synced and read back'
}
