/**
 * The store of blobs that the settings name, opened and tried.
 */
import { systemClock } from '#base/util/clock.js'
import { createRng, randomSeed } from '#base/util/rng.js'
import { createLocalBlobs } from '../storage/blobs/local-blobs.js'
import { parseS3Address } from '../storage/blobs/s3-address.js'
import { openS3Blobs, type S3Blobs } from '../storage/blobs/s3-blobs.js'
import { createCredentialSource } from '../storage/blobs/s3-credentials.js'
import type { BlobStore } from '../storage/blobs.js'
import type { DataDir } from '../storage/data-dir.js'
import { type Start, startEnvironment } from './start.js'

export interface OpenedBlobs {
  readonly blobs: BlobStore
  /** The same, where it is a bucket. */
  readonly bucket: S3Blobs | null
}

/** @throws {AppError} `invalid_setting`, `blob_store_keys_missing`, `blob_store_unavailable`, `blob_store_refused` */
export async function openBlobStore(
  start: Start,
  dataDir: DataDir,
  guard?: Parameters<typeof openS3Blobs>[0]['guard'],
): Promise<OpenedBlobs> {
  const { settings, logger, options } = start
  if (settings.blobStore === null) return { blobs: await createLocalBlobs(dataDir.blobsPath), bucket: null }
  const environment = startEnvironment(start)
  const rng = createRng(randomSeed())
  const address = parseS3Address(settings.blobStore, environment)
  const bucket = await openS3Blobs({
    address,
    credentials: createCredentialSource(environment),
    cachePath: dataDir.cachePath,
    clock: systemClock,
    random: () => rng.uniform(),
    ...(guard === undefined ? {} : { guard }),
    ...(options.tuning?.blobStore === undefined ? {} : { tuning: options.tuning.blobStore }),
  })
  logger.info({ blob_store: bucket.name, check: await bucket.check() }, 'blob_store.opened')
  return { blobs: bucket, bucket }
}
