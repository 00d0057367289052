/**
 * How bytes whose digest is their name come in: under a temporary name, hashed on the way. What becomes of the file is the store's.
 */
import { createHash } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { BlobRef, BlobWriter, PutOptions } from '../blobs.js'
import { removedWhileServed } from '../data-dir.js'
import { toStorageError } from '../database.js'

const FLUSH_BYTES = 1 << 20

/** Takes over a whole file of a known digest: closes it, and leaves nothing under its temporary name, whatever happens. */
export type Publish = (file: FileHandle, temporary: string, ref: BlobRef) => Promise<void>

/** Writes to a new file at `temporary`, which `publish` is given at the end. */
export async function createFileWriter(temporary: string, publish: Publish): Promise<BlobWriter> {
  const file = await guardDisk(() => open(temporary, 'wx', 0o600))
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
      const ref = { sha256, sizeBytes }
      await publish(file, temporary, ref)
      return ref
    },
  }
}

/** Writes all of `source` with a writer; refuses more than `maxBytes` with `request_too_large`. */
export async function putAll(
  writer: BlobWriter,
  source: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array>,
  options: PutOptions = {},
): Promise<BlobRef> {
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
}

/** Errors of the disk in our words. */
export async function guardDisk<T>(action: () => Promise<T>): Promise<T> {
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
