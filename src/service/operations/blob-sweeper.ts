/**
 * Frees the space of blobs that no row names any more: at start, and shortly after a delete.
 *
 * The grace covers what is written but not yet named by a row, and adapters of requests that were just admitted.
 */
import type { Logger } from '#base/logging/logger.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { listReferencedBlobs } from '#service/storage/upkeep/blob-references.js'

const GRACE_MS = 120_000

export interface BlobSweeper {
  /** Sweeps once the grace is over. */
  request(): void
  /** Sweeps now; `graceMs` 0 only while nothing else runs. */
  sweep(graceMs: number): Promise<number>
  stop(): void
}

export function createBlobSweeper(db: DatabaseHandle, blobs: BlobStore, logger: Logger): BlobSweeper {
  let timer: NodeJS.Timeout | null = null

  async function sweep(graceMs: number): Promise<number> {
    const removed = await blobs.sweep(await listReferencedBlobs(db), graceMs)
    if (removed > 0) logger.info({ removed_blobs: removed }, 'storage.swept')
    return removed
  }

  return {
    sweep,
    request: () => {
      timer ??= setTimeout(() => {
        timer = null
        sweep(GRACE_MS).catch((error: unknown) => logger.error({ err: error }, 'storage.sweep_failed'))
      }, GRACE_MS + 1000).unref()
    },
    stop: () => {
      if (timer !== null) clearTimeout(timer)
    },
  }
}
