/**
 * Blobs as objects of a bucket, `<prefix>/sha256/ab/cdef…`, as they lie on a disk, and copies of those in use on this machine.
 *
 * Bytes are spooled here while they are hashed, for the digest is the name, then sent; a write is acknowledged when the store
 * has answered. Stores differ in what they check, so every byte that comes back is compared with its digest before anybody is
 * given it.
 */
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { Environment } from '#base/environment.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import { createRng, randomSeed } from '#base/util/rng.js'
import type { BlobGuard, BlobStoreAddress, RemoteBlobs } from '#service/storage/blobs/remote-blobs.js'
import { createFileWriter, guardDisk, putAll } from '#service/storage/blobs/spool.js'
import { openBlobCache } from './blob-cache.js'
import { parseS3Address, type S3Address } from './s3-address.js'
import { type Bucket, inWords, isMissing, keyOf } from './s3-bucket.js'
import { createBlobChanges } from './s3-changes.js'
import { createCredentialSource, type S3Credentials } from './s3-credentials.js'
import { createS3Objects, DEFAULT_S3_TUNING, type S3Objects } from './s3-objects.js'
import { createBlobReads } from './s3-reads.js'
import { createS3Sender, S3Failure, toUnavailable } from './s3-request.js'

/**
 * Does a store do what blobs need of it? An object is written, not written again, read from its middle, and deleted.
 */
const TEXT = 'what the system check writes\n'

/** @returns what was found, a sentence @throws {S3Failure} */
async function probeStore(objects: S3Objects, address: S3Address, random: () => number): Promise<string> {
  const key = `${address.prefix}probe-${random().toString(36).slice(2, 12)}`
  const bytes = Buffer.from(TEXT)
  await objects.putBytes(key, bytes, { isNew: true })
  try {
    // names are digests, so a store that writes twice does no harm
    const isTwice = await objects.putBytes(key, bytes, { isNew: true })
    const [start, end] = [5, 11]
    const parts: Uint8Array[] = []
    for await (const chunk of objects.read(key, { start, end })) parts.push(chunk)
    if (Buffer.concat(parts).toString() !== TEXT.slice(start, end + 1)) {
      throw new S3Failure(501, 'wrong range', 'a part of an object did not read back as written')
    }
    return `an object was written to ${address.name}, read back and deleted${isTwice ? '; the store ignores If-None-Match' : ''}`
  } finally {
    await objects.delete(key)
  }
}

export interface S3BlobsOptions {
  readonly address: S3Address
  readonly credentials: () => Promise<S3Credentials>
  /** Folder of the copies. */
  readonly cachePath: string
  readonly clock: Clock
  readonly random: () => number
  /** Default: there is no other server. */
  readonly guard?: BlobGuard | undefined
  /** Default: `DEFAULT_S3_TUNING`. */
  readonly tuning?: Partial<typeof DEFAULT_S3_TUNING>
}

/** How long the address of an object is good for: readers begin at once. */
const LINK_SECONDS = 3600
const OWNER_KEY = 'trainyard-database'

/** Opens the store; asks nothing of it yet. */
export async function openS3Blobs(options: S3BlobsOptions): Promise<RemoteBlobs> {
  const { address, clock, random, guard = (_sha256, action) => action() } = options
  const tuning = { ...DEFAULT_S3_TUNING, ...options.tuning }
  const sender = createS3Sender(address, { credentials: options.credentials, silenceMs: tuning.silenceMs })
  const objects = createS3Objects(sender, tuning, random)
  const cache = await guardDisk(() => openBlobCache(options.cachePath, { maxBytes: address.cacheBytes, clock }))
  const bucket: Bucket = { address, objects, cache }
  const { fetch, localFile, openRead } = createBlobReads(bucket)
  const { publish, sendFile, removeOlderThan } = createBlobChanges(bucket, { clock, guard })
  const ownerKey = `${address.prefix}${OWNER_KEY}`

  async function linkTo(sha256: string): Promise<string | null> {
    const key = keyOf(address, sha256)
    const facts = address.isDirect ? await inWords(address, () => objects.head(key)) : null
    return facts === null || facts.sizeBytes < tuning.directBytes ? null : sender.presign(key, LINK_SECONDS)
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
    putFile: sendFile,
    fetchFile: fetch,
    localFile,
    openRead,
    linkTo,
    digestOf: (sha256) => inWords(address, () => digestOf(objects, keyOf(address, sha256))),
    has: async (sha256) => (await inWords(address, () => objects.head(keyOf(address, sha256)))) !== null,
    list: () => listDigests(bucket),
    factsOf: (sha256) => inWords(address, () => objects.head(keyOf(address, sha256))),
    removeOlderThan,
    check: () => inWords(address, () => probeStore(objects, address, random)),
    readOwner: () => inWords(address, () => readOwner(objects, ownerKey)),
    writeOwner: (id, { isNew = false } = {}) =>
      inWords(address, () => objects.putBytes(ownerKey, Buffer.from(`${id}\n`), { isNew })),
  }
}

/**
 * Reads an address of a bucket; the keys are those of the environment.
 *
 * @throws {InvalidRequestError} `invalid_setting`
 */
export async function readBlobStoreAddress(text: string, environment: Environment): Promise<BlobStoreAddress> {
  const address = parseS3Address(text, environment)
  const rng = createRng(randomSeed())
  return {
    name: address.name,
    open: ({ tuning, ...options }) =>
      openS3Blobs({
        ...{ address, credentials: createCredentialSource(environment), clock: systemClock, ...options },
        random: () => rng.uniform(),
        tuning: tuning ?? {},
      }),
  }
}

async function* listDigests({ address, objects }: Bucket): AsyncGenerator<string> {
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
