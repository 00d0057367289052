/**
 * Bytes of blobs out of a bucket, by way of copies on this machine: none is given to anybody before it was compared with its
 * digest.
 */
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { StorageError, toOpenFilesError } from '#base/errors/errors.js'
import { guardDisk } from '#service/storage/blobs/spool.js'
import { type BlobRef, blobCorrupt, blobMissing } from '#service/storage/blobs.js'
import type { BlobCache } from './blob-cache.js'
import { type Bucket, isMissing, keyOf } from './s3-bucket.js'
import { toUnavailable } from './s3-request.js'

interface BlobReads {
  /** Writes the bytes, checked, to a path. */
  fetch(sha256: string, path: string): Promise<BlobRef>
  localFile(sha256: string): Promise<string>
  openRead(sha256: string): Promise<Readable>
}

export function createBlobReads({ address, objects, cache }: Bucket): BlobReads {
  async function fetch(sha256: string, path: string): Promise<BlobRef> {
    const key = keyOf(address, sha256)
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

  return { fetch, localFile, openRead }
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
