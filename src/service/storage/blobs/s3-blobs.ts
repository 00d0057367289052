/**
 * Blobs as objects of a bucket, `<prefix>/sha256/ab/cdef…`, as they lie on a disk, and copies of those in use on this machine.
 *
 * Bytes are spooled here while they are hashed, for the digest is the name, then sent; a write is acknowledged when the store has
 * answered. Stores differ in what they check, so every byte that comes back is compared with its digest before anybody is given it.
 */
import { createHash } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { StorageError, toOpenFilesError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import { type BlobRef, type BlobStore, blobCorrupt, blobMissing, nameOf } from '../blobs.js'
import { type BlobCache, openBlobCache } from './blob-cache.js'
import type { S3Address } from './s3-address.js'
import type { S3Credentials } from './s3-credentials.js'
import { createS3Objects, DEFAULT_S3_TUNING, type ObjectFacts, type S3Objects } from './s3-objects.js'
import { probeStore } from './s3-probe.js'
import { createS3Sender, S3Failure, toUnavailable } from './s3-request.js'
import { createFileWriter, guardDisk, putAll } from './spool.js'

export interface S3Blobs extends BlobStore {
  /** Where the blobs are, for people and for the database: {@link S3Address.name}. */
  readonly name: string
  /** Sends a file, which stays where it is; its bytes are known to have that digest. */
  putFile(path: string, ref: BlobRef): Promise<void>
  /** Writes a blob's bytes, checked, to a path, and keeps no copy of its own. @throws as `localFile` */
  fetchFile(sha256: string, path: string): Promise<BlobRef>
  /** Which database the objects belong to; null where none has said so. */
  readOwner(): Promise<string | null>
  /** @param options.isNew do nothing where there is an owner. Default: take over. @returns whether it is the owner now */
  writeOwner(id: string, options?: { readonly isNew?: boolean }): Promise<boolean>
}

export interface S3BlobsOptions {
  readonly address: S3Address
  readonly credentials: () => Promise<S3Credentials>
  /** Folder of the copies. */
  readonly cachePath: string
  readonly clock: Clock
  readonly random: () => number
  /** Does what no other server may do with the same blob meanwhile. Default: there is no other. */
  readonly guard?: <T>(sha256: string, action: () => Promise<T>) => Promise<T>
  /** Default: `DEFAULT_S3_TUNING`. */
  readonly tuning?: Partial<typeof DEFAULT_S3_TUNING>
}

/** Larger ones are looked for first: an upload that the store refuses at its end is a waste. */
const LOOK_FIRST_BYTES = 1 << 20
/** How long the address of an object is good for: readers begin at once. */
const LINK_SECONDS = 3600
/** An object of this age may be about to be swept by somebody: it is written again, which makes it young. Below every grace. */
const YOUNG_MS = 60_000
const OWNER_KEY = 'trainyard-database'

/** Opens the store; asks nothing of it yet. */
export async function openS3Blobs(options: S3BlobsOptions): Promise<S3Blobs> {
  const { address, clock, guard = (_sha256, action) => action() } = options
  const tuning = { ...DEFAULT_S3_TUNING, ...options.tuning }
  const sender = createS3Sender(address, { credentials: options.credentials, silenceMs: tuning.silenceMs })
  const objects = createS3Objects(sender, tuning, options.random)
  const cache = await guardDisk(() => openBlobCache(options.cachePath, { maxBytes: address.cacheBytes, clock }))
  /** When this process last wrote a blob, by the monotonic clock. */
  const writtenAtMs = new Map<string, number>()
  /** Writes and deletions of one blob come one after the other. */
  const turns = new Map<string, Promise<unknown>>()

  function keyOf(sha256: string): string {
    const { folder, file } = nameOf(sha256)
    return `${address.prefix}sha256/${folder}/${file}`
  }

  async function inWords<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      throw toUnavailable(address, error)
    }
  }

  function inTurn<T>(sha256: string, action: () => Promise<T>): Promise<T> {
    const before = turns.get(sha256) ?? Promise.resolve()
    const mine = before.then(action, action)
    turns.set(sha256, mine)
    const forget = (): void => {
      if (turns.get(sha256) === mine) turns.delete(sha256)
    }
    mine.then(forget, forget)
    return mine
  }

  async function publish(file: FileHandle, path: string, ref: BlobRef): Promise<void> {
    try {
      await file.close()
      await inTurn(ref.sha256, async () => {
        writtenAtMs.set(ref.sha256, clock.monotonicMs())
        await inWords(() => send(path, ref))
      })
      await cache.add(path, ref)
    } finally {
      await rm(path, { force: true })
    }
  }

  async function send(path: string, { sha256, sizeBytes }: BlobRef): Promise<void> {
    const key = keyOf(sha256)
    const file = { path, sizeBytes, sha256 }
    if (sizeBytes > LOOK_FIRST_BYTES && isKept(await objects.head(key), sizeBytes)) return
    if (await objects.putFile(key, file, { isNew: true })) return
    if (isKept(await objects.head(key), sizeBytes)) return
    await guard(sha256, () => objects.putFile(key, file))
  }

  async function fetch(sha256: string, path: string): Promise<BlobRef> {
    const key = keyOf(sha256)
    let last = ''
    // once more: bytes may be damaged on the way
    for (let count = 0; count < 2; count += 1) {
      const hash = createHash('sha256')
      let sizeBytes = 0
      const file = await guardDisk(() => open(path, 'w', 0o600))
      try {
        for await (const chunk of objects.read(key)) {
          hash.update(chunk)
          sizeBytes += chunk.length
          await guardDisk(() => file.writeFile(chunk))
        }
      } catch (error) {
        throw isMissing(error) ? blobMissing(sha256, error) : toUnavailable(address, error)
      } finally {
        await file.close()
      }
      last = hash.digest('hex')
      if (last === sha256) return { sha256, sizeBytes }
    }
    throw blobCorrupt(
      sha256,
      new Error(`object "${key}" of blob store "${address.name}": its bytes have digest ${last}`),
    )
  }

  const localFile = (sha256: string): Promise<string> => cache.get(sha256, (path) => fetch(sha256, path))

  async function openRead(sha256: string): Promise<Readable> {
    for (let count = 1; ; count += 1) {
      const path = await localFile(sha256)
      try {
        const file = await open(path, 'r')
        return Readable.from(checked(file.createReadStream(), sha256, cache), { objectMode: false })
      } catch (cause) {
        if (toOpenFilesError(cause) !== null) throw toOpenFilesError(cause)
        // somebody removed the copy between the two lines
        if (count === 3) throw blobMissing(sha256, cause)
      }
    }
  }

  async function removeOlderThan(sha256: string, graceMs: number): Promise<boolean> {
    return inTurn(sha256, async () => {
      const writtenMs = writtenAtMs.get(sha256)
      if (writtenMs !== undefined && clock.monotonicMs() - writtenMs < graceMs) return false
      const isGone = await guard(sha256, async () => {
        const facts = await inWords(() => objects.head(keyOf(sha256)))
        if (facts === null) return true
        if (facts.storeNowMs - facts.modifiedAtMs < graceMs) return false
        await inWords(() => objects.delete(keyOf(sha256)))
        return true
      })
      if (!isGone) return false
      writtenAtMs.delete(sha256)
      await cache.forget(sha256)
      return true
    })
  }

  async function linkTo(sha256: string): Promise<string | null> {
    const facts = address.isDirect ? await inWords(() => objects.head(keyOf(sha256))) : null
    return facts === null || facts.sizeBytes < tuning.directBytes ? null : sender.presign(keyOf(sha256), LINK_SECONDS)
  }

  const createWriter = () => createFileWriter(cache.temporaryPath(), publish)

  return {
    name: address.name,
    createWriter,
    temporaryPath: () => cache.temporaryPath(),
    adopt: async (path, ref) => {
      await publish(await guardDisk(() => open(path, 'r+')), path, ref)
      return { sha256: ref.sha256, sizeBytes: ref.sizeBytes }
    },
    put: async (source, putOptions) => putAll(await createWriter(), source, putOptions),
    putFile: (path, ref) => inTurn(ref.sha256, () => inWords(() => send(path, ref))),
    fetchFile: fetch,
    localFile,
    openRead,
    linkTo,
    digestOf: (sha256) => inWords(() => digestOf(objects, keyOf(sha256))),
    has: async (sha256) => (await inWords(() => objects.head(keyOf(sha256)))) !== null,
    list: () => listDigests(objects, address),
    factsOf: (sha256) => inWords(() => objects.head(keyOf(sha256))),
    removeOlderThan,
    check: () => inWords(() => probeStore(objects, address, options.random)),
    readOwner: () => inWords(() => readOwner(objects, `${address.prefix}${OWNER_KEY}`)),
    writeOwner: (id, { isNew = false } = {}) =>
      inWords(() => objects.putBytes(`${address.prefix}${OWNER_KEY}`, Buffer.from(`${id}\n`), { isNew })),
  }
}

function isKept(facts: ObjectFacts | null, sizeBytes: number): boolean {
  return facts !== null && facts.sizeBytes === sizeBytes && facts.storeNowMs - facts.modifiedAtMs < YOUNG_MS
}

/** A copy's bytes; fails before the last of them when they are not those of the digest, so nobody takes them for whole. */
async function* checked(source: Readable, sha256: string, cache: BlobCache): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  try {
    let last: Buffer | null = null
    for await (const chunk of source as AsyncIterable<Buffer>) {
      if (last !== null) yield last
      hash.update(chunk)
      last = chunk
    }
    if (hash.digest('hex') === sha256) {
      if (last !== null) yield last
      return
    }
    await cache.forget(sha256)
    throw new StorageError('blob_corrupt', `the copy of blob ${sha256.slice(0, 12)} on this machine is damaged`, {
      hint: 'try again: it is fetched anew',
    })
  } finally {
    source.destroy()
  }
}

async function* listDigests(objects: S3Objects, address: S3Address): AsyncGenerator<string> {
  const prefix = `${address.prefix}sha256/`
  try {
    for await (const key of objects.list(prefix)) {
      const [, folder, file] = /^([0-9a-f]{2})\/([0-9a-f]{62})$/.exec(key.slice(prefix.length)) ?? []
      if (folder !== undefined && file !== undefined) yield folder + file
    }
  } catch (error) {
    throw toUnavailable(address, error)
  }
}

async function digestOf(objects: S3Objects, key: string): Promise<string | null> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of objects.read(key)) hash.update(chunk)
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
  return hash.digest('hex')
}

function isMissing(error: unknown): boolean {
  return error instanceof S3Failure && error.status === 404 && error.code !== 'NoSuchBucket'
}

async function readOwner(objects: S3Objects, key: string): Promise<string | null> {
  const chunks: Uint8Array[] = []
  try {
    for await (const chunk of objects.read(key)) chunks.push(chunk)
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
  return Buffer.concat(chunks).toString('utf8').trim()
}
