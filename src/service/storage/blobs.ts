/**
 * The seam of blobs: immutable bytes by the SHA-256 of their content. Rows hold digests; who holds the bytes is one of the stores in
 * `blobs/`: files of the data directory, or what a plugin opens at an address. Both pass `test/integration/storage/conformance/blob-store.ts`.
 *
 * A write is acknowledged when the bytes are kept, and a digest that is there always has all of its bytes. Which blobs may go is
 * not known here: the sweeper decides (`operations/blob-sweeper.ts`).
 */
import type { Readable } from 'node:stream'
import { AppError, StorageError } from '#base/errors/errors.js'
import { checkpointCorrupt } from '#formats/checkpoint-manifest.js'

/** What was stored. */
export interface BlobRef {
  readonly sha256: string
  readonly sizeBytes: number
}

/** Writes one blob piece by piece. */
export interface BlobWriter {
  /** @throws {AppError} `disk_full` when the disk is, `data_dir_removed` when the folder is gone */
  write(chunk: Uint8Array | string): Promise<void>
  /**
   * Syncs, publishes and returns the digest.
   *
   * @param expectedSha256 refuse other bytes with `digest_mismatch`
   */
  commit(expectedSha256?: string): Promise<BlobRef>
  /** Drops what was written; harmless after `commit`. */
  abort(): Promise<void>
}

export interface BlobStore {
  createWriter(): Promise<BlobWriter>
  /** An unused path beside the blobs, for a file that may become one; what is left there is removed at the next start. */
  temporaryPath(): string
  /** Publishes a file below `temporaryPath` whose digest is known: syncs and renames it. */
  adopt(path: string, ref: BlobRef): Promise<BlobRef>
  /** Stores all bytes of `source`; refuses more than `maxBytes` with `request_too_large`. */
  put(source: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array>, options?: PutOptions): Promise<BlobRef>
  /**
   * Absolute path of a file with the bytes, for processes that read it themselves. It stays for at least {@link LOCAL_FILE_MS} after
   * it was last asked for.
   *
   * @throws {StorageError} `blob_missing`, `blob_corrupt`; {AppError} `blob_store_unavailable`: where bytes have to be fetched first
   */
  localFile(sha256: string): Promise<string>
  /** @throws {StorageError} `blob_missing` if the bytes are not there; {AppError} `blob_store_unavailable` */
  openRead(sha256: string): Promise<Readable>
  /**
   * An address at which whoever has it reads the bytes for an hour, without keys. Null for small blobs, for those that are not there, and where
   * readers are not said to reach the store. Absent: the bytes have no address.
   */
  linkTo?(sha256: string): Promise<string | null>
  has(sha256: string): Promise<boolean>
  /** Digests of all that is named as blobs are, also damaged ones. */
  list(): AsyncGenerator<string>
  /** Digest of the bytes as they are kept, all of them read; null if there is no such blob. */
  digestOf(sha256: string): Promise<string | null>
  /** Null if there is no such blob. */
  factsOf(sha256: string): Promise<BlobFacts | null>
  /**
   * Deletes a blob unless it was written within `graceMs`, by the time of its bytes and by this process's own count, which a clock that is
   * set forward does not change. Looks and deletes in one go: a writer of the same bytes comes before or after.
   *
   * @returns whether it is gone
   */
  removeOlderThan(sha256: string, graceMs: number): Promise<boolean>
  /** Writes and reads bytes where they are kept. @returns what was done, a sentence; throws what fails */
  check(): Promise<string>
}

/** How long a file that {@link BlobStore.localFile} named is left alone: longer than a request or a plan waits for its turn. */
export const LOCAL_FILE_MS = 3_600_000

/** What a store says of a blob. */
export interface BlobFacts {
  readonly sizeBytes: number
  readonly modifiedAtMs: number
}

export interface PutOptions {
  readonly maxBytes?: number
  readonly expectedSha256?: string
}

/** Digests come from our own rows, but a path is never built from an unchecked text: the two parts of a blob's name. */
export function nameOf(sha256: string): { readonly folder: string; readonly file: string } {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new StorageError('invalid_digest', 'a blob digest is not 64 hex digits')
  return { folder: sha256.slice(0, 2), file: sha256.slice(2) }
}

/** A blob for somebody on another machine: its bytes, or where they are. */
export type OpenedBlob = { readonly sha256: string } & ({ readonly stream: Readable } | { readonly link: string })

/**
 * @param options.mayLink whoever asks can read elsewhere
 * @param options.open default: `openRead`
 * @throws as `openRead`
 */
export async function openOrLink(
  blobs: Pick<BlobStore, 'openRead' | 'linkTo'>,
  sha256: string,
  {
    mayLink,
    open = () => blobs.openRead(sha256),
  }: { readonly mayLink: boolean; readonly open?: () => Promise<Readable> },
): Promise<OpenedBlob> {
  const link = mayLink ? ((await blobs.linkTo?.(sha256)) ?? null) : null
  return link === null ? { sha256, stream: await open() } : { sha256, link }
}

const RESTORE =
  'whoever runs the server puts it back from a backup, or a version of the bucket; trainyard verify names all such'

/** The error for bytes that are not there. */
export function blobMissing(sha256: string, cause?: unknown): StorageError {
  return new StorageError('blob_missing', `stored bytes cannot be read: blob ${sha256.slice(0, 12)} is gone`, {
    hint: RESTORE,
    cause,
  })
}

/** The error for bytes that are others than were stored. @param cause says where they lie: logged, never sent */
export function blobCorrupt(sha256: string, cause?: unknown): StorageError {
  return new StorageError('blob_corrupt', `stored bytes are damaged: blob ${sha256.slice(0, 12)}`, {
    hint: RESTORE,
    cause,
  })
}

/**
 * Files of a checkpoint as a process is given them that reads them itself: name → path and digest.
 *
 * @param checkpoint as errors call it, for example `checkpointTitle(…)`
 * @throws {CheckpointError} `checkpoint_corrupt` for bytes that are damaged or gone; {AppError} `blob_store_unavailable`
 */
export async function toLocalFiles(
  blobs: Pick<BlobStore, 'localFile'>,
  checkpoint: string,
  files: readonly { readonly name: string; readonly sha256: string }[],
): Promise<Readonly<Record<string, { readonly path: string; readonly sha256: string }>>> {
  const entries = files.map(async ({ name, sha256 }) => {
    try {
      return [name, { path: await blobs.localFile(sha256), sha256 }] as const
    } catch (cause) {
      throw toCheckpointError(checkpoint, name, cause)
    }
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** What a blob's error means for the checkpoint that its file belongs to; a store that does not answer may well have it. */
export function toCheckpointError(checkpoint: string, fileName: string, cause: unknown): unknown {
  const isBroken = cause instanceof AppError && (cause.code === 'blob_missing' || cause.code === 'blob_corrupt')
  return isBroken ? checkpointCorrupt(checkpoint, `${fileName} cannot be read`, cause) : cause
}
