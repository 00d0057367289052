/**
 * Where a service keeps its data, in the form of its servers' flags: rows in PostgreSQL or a data directory, blobs in a
 * bucket or a data directory. A move has two such places; either rows or blobs may stay where they are.
 */
import { resolve } from 'node:path'
import type { Environment } from '#base/environment.js'
import { ConflictError, InvalidRequestError } from '#base/errors/errors.js'
import { parseS3Address } from '#service/storage/blobs/s3-address.js'
import { nameRows } from '#service/storage/move/open-ends.js'
import { parsePostgresAddress } from '#service/storage/postgres/address.js'

export interface Place {
  /** Absolute; null where neither rows nor blobs lie in one. */
  readonly directory: string | null
  readonly database: string | null
  readonly blobStore: string | null
}

export interface MovePlaces {
  readonly from: Place
  readonly to: Place
  /** False: they stay where they are, for both places name the same. */
  readonly movesRows: boolean
  readonly movesBlobs: boolean
}

/**
 * Reads and compares both; opens nothing.
 *
 * @throws {InvalidRequestError} `invalid_setting`, `missing_place`, `nothing_to_move`
 */
export function readPlaces(from: Place, to: Place, environment: Environment): MovePlaces {
  const source = checked(from, '--from')
  const target = checked({ ...to, directory: to.directory ?? from.directory }, '--data-dir')
  const movesRows = nameOfRows(source) !== nameOfRows(target)
  const movesBlobs = nameOfBlobs(source, environment) !== nameOfBlobs(target, environment)
  if (!movesRows && !movesBlobs) {
    throw new InvalidRequestError('nothing_to_move', 'source and target are the same place', {
      hint: 'name where to move to: --database postgres://…, --blob-store s3://…, or --data-dir with a new directory',
    })
  }
  return { from: source, to: target, movesRows, movesBlobs }
}

/** What a person is told: both halves. */
export function describePlace(place: Place, environment: Environment): string {
  const [rows, blobs] = [nameRows(place), nameOfBlobs(place, environment)]
  return rows === blobs ? rows : `${rows} and ${blobs}`
}

export function nameOfBlobs({ blobStore, directory }: Place, environment: Environment): string {
  return blobStore === null ? `"${directory}"` : parseS3Address(blobStore, environment).name
}

/** Blobs that are somewhere else than the flags say would not be found. @throws {ConflictError} `blobs_elsewhere` */
export function assertBlobsOfSource(kept: string | null, { from }: MovePlaces, environment: Environment): void {
  const named = from.blobStore === null ? null : parseS3Address(from.blobStore, environment).name
  if (kept === named) return
  throw new ConflictError(
    'blobs_elsewhere',
    `the source keeps its blobs in ${kept ?? 'its data directory'}, not in ${named ?? `"${from.directory}"`}`,
    {
      hint:
        kept === null ? 'leave out --from-blob-store, and name the directory in --from' : `--from-blob-store '${kept}'`,
    },
  )
}

function nameOfRows(place: Place): string {
  return nameRows(place)
}

function checked(place: Place, flag: '--from' | '--data-dir'): Place {
  if (place.database !== null) parsePostgresAddress(place.database)
  if (place.directory !== null) return { ...place, directory: resolve(place.directory) }
  if (place.database !== null && place.blobStore !== null) return place
  const what = place.database === null ? 'rows' : 'blobs'
  const others = flag === '--from' ? '--from-database and --from-blob-store' : '--database and --blob-store'
  throw new InvalidRequestError('missing_place', `${flag} with a data directory is required: its ${what} are in one`, {
    param: flag,
    hint: `${flag} ./data, or ${others} where both are elsewhere`,
  })
}
