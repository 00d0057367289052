/**
 * What a backup file holds: a tar archive, so that it can be looked into, with these entries in this order.
 *
 *     manifest.json               what it is, digests of the two files that follow
 *     trainyard.sqlite3           the database as of one moment
 *     api-key                     the first key, if there is a key file
 *     blobs/sha256/ab/cdef…       every blob the database names; the name is the digest
 *     end.json                    counts, and blobs that could not be saved
 *
 * Of a server whose blobs are kept in a bucket it holds none of them: `blob_store` of the manifest names the bucket.
 * Prepared weights and built-in models are not in it: they are made again when needed.
 */
import { StorageError } from '#base/errors/errors.js'

export const MANIFEST_ENTRY = 'manifest.json'
export const DATABASE_ENTRY = 'trainyard.sqlite3'
export const KEY_ENTRY = 'api-key'
export const END_ENTRY = 'end.json'
export const FORMAT = 'trainyard-backup'
export const FORMAT_VERSION = 1

export interface BackupManifest {
  readonly format: typeof FORMAT
  readonly version: typeof FORMAT_VERSION
  /** Version of the program. */
  readonly program: string
  /** Newest migration of the database. */
  readonly schema: string
  /** Where the blobs are kept that are not in the file; null: they are in it. */
  readonly blob_store: string | null
  /** ISO 8601, UTC. */
  readonly created_at: string
  /** Entry → SHA-256, hex. */
  readonly digests: Readonly<Record<string, string>>
}

export interface BackupEnd {
  readonly blobs: number
  readonly bytes: number
  /** Digests of blobs that were gone or damaged when the backup was made. */
  readonly damaged: readonly string[]
}

export function blobEntry(sha256: string): string {
  return `blobs/sha256/${sha256.slice(0, 2)}/${sha256.slice(2)}`
}

/** The digest of a blob's entry; null for any other name. */
export function digestOfBlobEntry(name: string): string | null {
  const match = /^blobs\/sha256\/([0-9a-f]{2})\/([0-9a-f]{62})$/.exec(name)
  return match === null ? null : `${match[1]}${match[2]}`
}

/** @throws {StorageError} `archive_invalid`, `archive_newer` */
export function parseManifest(text: string): BackupManifest {
  const value = parseObject(text)
  if (value['format'] !== FORMAT) throw invalid('its first entry is not the manifest of a backup')
  if (value['version'] !== FORMAT_VERSION) {
    throw new StorageError(
      'archive_newer',
      `the backup has format ${String(value['version'])}, expected ${FORMAT_VERSION}`,
      {
        hint: `restore it with version ${String(value['program'])} of the program`,
      },
    )
  }
  const { program, schema, created_at, digests, blob_store = null } = value
  const isWhole = [program, schema, created_at].every((text) => typeof text === 'string')
  if (!isWhole || typeof digests !== 'object' || digests === null) throw invalid('its manifest is malformed')
  return {
    format: FORMAT,
    version: FORMAT_VERSION,
    program: String(program),
    schema: String(schema),
    blob_store: blob_store === null ? null : String(blob_store),
    created_at: String(created_at),
    digests: Object.fromEntries(Object.entries(digests).map(([name, digest]) => [name, String(digest)])),
  }
}

/** @throws {StorageError} `archive_invalid` */
export function parseEnd(text: string): BackupEnd {
  const { blobs, bytes, damaged } = parseObject(text)
  const isList = Array.isArray(damaged) && damaged.every((each) => typeof each === 'string')
  if (typeof blobs !== 'number' || typeof bytes !== 'number' || !isList) throw invalid('its last entry is malformed')
  return { blobs, bytes, damaged }
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // said below
  }
  throw invalid('an entry is not JSON')
}

/** What is wrong with an archive. */
export function invalid(reason: string): StorageError {
  return new StorageError('archive_invalid', `the file is not a whole backup: ${reason}`)
}
