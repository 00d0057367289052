/**
 * Copies blobs from one store to another. Each is read whole and compared with its digest before it counts. A blob that
 * the target has already is checked there and not sent again. Blobs that are damaged or missing in the source are
 * listed; the other blobs are copied, but the move then does not finish.
 */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import { digestOfFile, factsOf, type LocalBlobs } from '#service/storage/blobs/local-blobs.js'
import type { RemoteBlobs } from '#service/storage/blobs/remote-blobs.js'
import { nameOf } from '#service/storage/blobs.js'

/** A store to read from: files below `blobs` of a directory, which no store is opened on, or a remote one. */
export type BlobSource = { readonly root: string } | { readonly remote: RemoteBlobs }
export type BlobTarget = { readonly files: LocalBlobs } | { readonly remote: RemoteBlobs }

export interface DamagedBlob {
  readonly sha256: string
  readonly problem: string
}

interface MovedBlobs {
  readonly blobs: number
  readonly bytes: number
  /** Of them, those that were in the target, whole. */
  readonly present: number
  readonly damaged: readonly DamagedBlob[]
}

interface MoveBlobsOptions {
  readonly source: BlobSource
  readonly target: BlobTarget
  readonly wanted: ReadonlySet<string>
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: (blobs: number, bytes: number) => void
}

/** Small objects are a round trip each. */
const AT_ONCE = 6

/** @throws {AppError} `blob_store_unavailable`, `blob_store_refused`, `disk_full` */
export async function moveBlobs(options: MoveBlobsOptions): Promise<MovedBlobs> {
  const { source, target, wanted, signal, onProgress = () => undefined } = options
  const store = 'files' in target ? target.files : target.remote
  const there = new Set<string>()
  for await (const sha256 of store.list()) if (wanted.has(sha256)) there.add(sha256)
  const damaged: DamagedBlob[] = []
  let [blobs, bytes, present] = [0, 0, 0]

  async function moveOne(sha256: string): Promise<void> {
    if (there.has(sha256) && (await isWhole(store, sha256))) {
      present += 1
      bytes += (await store.factsOf(sha256))?.sizeBytes ?? 0
    } else {
      const moved = await copy(sha256, source, target)
      if (typeof moved === 'string') damaged.push({ sha256, problem: moved })
      else bytes += moved
    }
    blobs += 1
    onProgress(blobs, bytes)
  }

  await eachOf(wanted, async (sha256) => {
    signal?.throwIfAborted()
    await moveOne(sha256)
  })
  damaged.sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
  return { blobs: blobs - damaged.length, bytes, present, damaged }
}

/** What is there to move, by the store's own word; no byte is read. */
export async function sizeBlobs({
  source,
  wanted,
}: Pick<MoveBlobsOptions, 'source' | 'wanted'>): Promise<Pick<MovedBlobs, 'bytes' | 'damaged'>> {
  const damaged: DamagedBlob[] = []
  let bytes = 0
  await eachOf(wanted, async (sha256) => {
    const facts = 'root' in source ? await factsOf(pathOf(source.root, sha256)) : await source.remote.factsOf(sha256)
    if (facts === null) damaged.push({ sha256, problem: GONE })
    bytes += facts?.sizeBytes ?? 0
  })
  return { bytes, damaged }
}

const GONE = 'is not there'

/** The first failure ends all of it: none is begun behind it, and none is left at work. */
async function eachOf(wanted: ReadonlySet<string>, work: (sha256: string) => Promise<void>): Promise<void> {
  const waiting = [...wanted].sort()
  const one = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      try {
        await work(next)
      } catch (error) {
        waiting.length = 0
        throw error
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, one))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

function pathOf(root: string, sha256: string): string {
  const { folder, file } = nameOf(sha256)
  return join(root, 'sha256', folder, file)
}

/** Nothing vouches for what was there before. */
async function isWhole(store: LocalBlobs | RemoteBlobs, sha256: string): Promise<boolean> {
  try {
    return (await store.digestOf(sha256)) === sha256
  } catch (error) {
    // a disk that cannot read its bytes may take them anew; a store that gives no answer takes none
    if (error instanceof AppError) throw error
    return false
  }
}

/** @returns bytes, or what is wrong with the source's */
async function copy(sha256: string, source: BlobSource, target: BlobTarget): Promise<number | string> {
  if ('root' in source) {
    const path = pathOf(source.root, sha256)
    try {
      return 'files' in target
        ? await copyFile(path, sha256, target.files)
        : await sendFile(path, sha256, target.remote)
    } catch (error) {
      const problem = problemOf(error, path)
      if (problem === null) throw error
      return problem
    }
  }
  const path = 'files' in target ? target.files.temporaryPath() : source.remote.temporaryPath()
  try {
    const ref = await source.remote.fetchFile(sha256, path)
    if ('files' in target) await target.files.adopt(path, ref)
    else await target.remote.putFile(path, ref)
    return ref.sizeBytes
  } catch (error) {
    if (!(error instanceof AppError) || !/^blob_(missing|corrupt)$/.test(error.code)) throw error
    return error.code === 'blob_missing' ? GONE : error.message
  } finally {
    await rm(path, { force: true })
  }
}

async function copyFile(path: string, sha256: string, files: LocalBlobs): Promise<number> {
  const source = createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>
  return (await files.put(source, { expectedSha256: sha256 })).sizeBytes
}

async function sendFile(path: string, sha256: string, remote: RemoteBlobs): Promise<number | string> {
  const actual = await digestOfFile(path)
  const facts = await factsOf(path)
  if (actual === null || facts === null) return GONE
  if (actual !== sha256) return `is damaged: its bytes have digest ${actual}`
  await remote.putFile(path, { sha256, sizeBytes: facts.sizeBytes })
  return facts.sizeBytes
}

/** Null for what is not the source file's fault. */
function problemOf(error: unknown, path: string): string | null {
  if (error instanceof AppError) {
    return error.code === 'digest_mismatch' ? `is damaged: ${error.message.split(',')[0]}` : null
  }
  if (!(error instanceof Error) || !('code' in error)) return null
  if (error.code === 'ENOENT') return GONE
  // of the target's disk the store speaks in its own words
  return 'path' in error && error.path === path ? `cannot be read: ${String(error.code)}` : null
}
