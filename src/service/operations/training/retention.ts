/**
 * How long what jobs trained on stays: for a time after their end, and together within a bound, the oldest goes first.
 */
import { statfs } from 'node:fs/promises'
import type { Logger } from '#base/logging/logger.js'
import type { BlobStore } from '#service/storage/blobs.js'
import { type Database, readDatabaseNowMs } from '#service/storage/database.js'
import { deleteKeptData, listEndedKeptData, setKeptDataBytes } from '#service/storage/jobs/kept-data.js'

export interface RetentionOptions {
  readonly db: Database
  readonly blobs: Pick<BlobStore, 'factsOf'>
  readonly logger: Logger
  /** Time after a job's end; 0: nothing is kept. */
  readonly keepMs: number
  /** Most of all together. */
  readonly maxBytes: number
  /** Where the disk is whose tenth it may take; null: elsewhere. */
  readonly directory: string | null
}

/** Forgets what is over its time or beyond the bound; the sweeper frees it. */
export async function dropOldTrainingData(options: RetentionOptions): Promise<void> {
  const { db, blobs, logger, keepMs } = options
  const kept = await listEndedKeptData(db)
  if (kept.length === 0) return
  const maxBytes = Math.min(options.maxBytes, (await diskBytes(options.directory)) / 10)
  const nowMs = await readDatabaseNowMs(db)
  const counted = new Set<string>()
  const dropped: string[] = []
  let bytes = 0
  for (const { jobId, endedAtMs, dataSha256, dataBytes, rolloutsSha256, rolloutsBytes } of kept) {
    if ((endedAtMs ?? nowMs) + keepMs <= nowMs) {
      dropped.push(jobId)
      continue
    }
    const known = dataBytes ?? (await blobs.factsOf(dataSha256))?.sizeBytes ?? 0
    if (dataBytes === null) await setKeptDataBytes(db, jobId, known)
    // two jobs may have trained on the same rows
    const size = (counted.has(dataSha256) ? 0 : known) + (rolloutsSha256 === null ? 0 : (rolloutsBytes ?? 0))
    // only what stays takes room: one that is larger than the bound costs no other its place
    if (bytes + size > maxBytes) {
      dropped.push(jobId)
      continue
    }
    counted.add(dataSha256)
    bytes += size
  }
  for (let at = 0; at < dropped.length; at += 500) await deleteKeptData(db, dropped.slice(at, at + 500))
  if (dropped.length > 0) logger.info({ jobs: dropped.length }, 'training_data.dropped')
}

async function diskBytes(directory: string | null): Promise<number> {
  if (directory === null) return Number.POSITIVE_INFINITY
  const { blocks, bsize } = await statfs(directory)
  return blocks * bsize
}
