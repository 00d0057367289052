/**
 * The store of blobs that the settings name, opened and tried.
 */
import { readAddress } from '../storage/addresses.js'
import { createLocalBlobs } from '../storage/blobs/local-blobs.js'
import type { BlobGuard, RemoteBlobs } from '../storage/blobs/remote-blobs.js'
import type { BlobStore } from '../storage/blobs.js'
import type { DataDir } from '../storage/data-dir.js'
import { type Start, startEnvironment } from './start.js'

export interface OpenedBlobs {
  readonly blobs: BlobStore
  /** The same, where it is not the data directory. */
  readonly remote: RemoteBlobs | null
}

/** @throws {AppError} `invalid_setting`, `blob_store_keys_missing`, `blob_store_unavailable`, `blob_store_refused` */
export async function openBlobStore(start: Start, dataDir: DataDir, guard?: BlobGuard): Promise<OpenedBlobs> {
  const { settings, logger, options, plugins } = start
  if (settings.blobStore === null) return { blobs: await createLocalBlobs(dataDir.blobsPath), remote: null }
  const address = await readAddress('blob-store', settings.blobStore, plugins.blobStores, startEnvironment(start))
  const remote = await address.open({ cachePath: dataDir.cachePath, guard, tuning: options.tuning?.blobStore })
  logger.info({ blob_store: remote.name, check: await remote.check() }, 'blob_store.opened')
  return { blobs: remote, remote }
}
