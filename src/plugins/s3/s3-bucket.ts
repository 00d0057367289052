/**
 * What reads and changes of blobs in a bucket share: which key a blob has, and what a failure is called.
 */
import { nameOf } from '#service/storage/blobs.js'
import type { BlobCache } from './blob-cache.js'
import type { S3Address } from './s3-address.js'
import type { S3Objects } from './s3-objects.js'
import { S3Failure, toUnavailable } from './s3-request.js'

export interface Bucket {
  readonly address: S3Address
  readonly objects: S3Objects
  /** Copies on this machine. */
  readonly cache: BlobCache
}

export function keyOf({ prefix }: Pick<S3Address, 'prefix'>, sha256: string): string {
  const { folder, file } = nameOf(sha256)
  return `${prefix}sha256/${folder}/${file}`
}

/** @throws {AppError} `blob_store_unavailable`, `blob_store_refused` for the store's failures */
export async function inWords<T>(address: S3Address, action: () => Promise<T>): Promise<T> {
  try {
    return await action()
  } catch (error) {
    throw toUnavailable(address, error)
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof S3Failure && error.status === 404 && error.code !== 'NoSuchBucket'
}
