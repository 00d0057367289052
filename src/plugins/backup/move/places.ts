/**
 * Where a service keeps its data, in the form of its servers' flags: rows and blobs at addresses or in a data
 * directory. A move has two such places; either rows or blobs may stay where they are.
 */
import { resolve } from 'node:path'
import type { Environment } from '#base/environment.js'
import { ConflictError, InvalidRequestError } from '#base/errors/errors.js'
import { readAddress } from '#service/storage/addresses.js'
import type { BlobStoreAddress, BlobStoreKind } from '#service/storage/blobs/remote-blobs.js'
import type { DatabaseAddress, DatabaseKind } from '#service/storage/remote-database.js'
import { nameRows } from '../storage/open-ends.js'

export interface Place {
  /** Absolute; null where neither rows nor blobs lie in one. */
  readonly directory: string | null
  readonly database: string | null
  readonly blobStore: string | null
}

/** A place whose addresses were read. */
export interface KnownPlace extends Place {
  /** Null: rows lie in the directory. */
  readonly databaseAddress: DatabaseAddress | null
  /** Null: blobs lie in the directory. */
  readonly blobAddress: BlobStoreAddress | null
  /** What people are told: both halves. */
  readonly description: string
}

/** Who opens addresses. */
export interface MoveReaders {
  readonly environment: Environment
  readonly databases: readonly DatabaseKind[]
  readonly blobStores: readonly BlobStoreKind[]
}

export interface MovePlaces {
  readonly from: KnownPlace
  readonly to: KnownPlace
  /** False: they stay where they are, for both places name the same. */
  readonly movesRows: boolean
  readonly movesBlobs: boolean
}

/**
 * Reads and compares both; opens nothing.
 *
 * @throws {InvalidRequestError} `invalid_setting`, `missing_place`, `nothing_to_move`
 */
export async function readPlaces(given: Place, wanted: Place, readers: MoveReaders): Promise<MovePlaces> {
  const from = await known(checked(given, '--from'), readers)
  const to = await known(checked({ ...wanted, directory: wanted.directory ?? from.directory }, '--data-dir'), readers)
  const movesRows = nameRows(from) !== nameRows(to)
  const movesBlobs = nameOfBlobs(from) !== nameOfBlobs(to)
  if (!movesRows && !movesBlobs) {
    throw new InvalidRequestError('nothing_to_move', 'source and target are the same place', {
      hint: 'name where to move to: --database postgres://…, --blob-store s3://…, or --data-dir with a new directory',
    })
  }
  return { from, to, movesRows, movesBlobs }
}

async function known(place: Place, { environment, databases, blobStores }: MoveReaders): Promise<KnownPlace> {
  const { database, blobStore } = place
  const databaseAddress = database === null ? null : await readAddress('database', database, databases, environment)
  const blobAddress = blobStore === null ? null : await readAddress('blob-store', blobStore, blobStores, environment)
  const addresses = { ...place, databaseAddress, blobAddress }
  const [rows, blobs] = [nameRows(addresses), nameOfBlobs(addresses)]
  return { ...addresses, description: rows === blobs ? rows : `${rows} and ${blobs}` }
}

function nameOfBlobs({ blobAddress, directory }: Pick<KnownPlace, 'blobAddress' | 'directory'>): string {
  return blobAddress?.name ?? `"${directory}"`
}

/** Blobs that are somewhere else than the flags say would not be found. @throws {ConflictError} `blobs_elsewhere` */
export function assertBlobsOfSource(kept: string | null, { from }: MovePlaces): void {
  const named = from.blobAddress?.name ?? null
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

function checked(place: Place, flag: '--from' | '--data-dir'): Place {
  if (place.directory !== null) return { ...place, directory: resolve(place.directory) }
  if (place.database !== null && place.blobStore !== null) return place
  const what = place.database === null ? 'rows' : 'blobs'
  const others = flag === '--from' ? '--from-database and --from-blob-store' : '--database and --blob-store'
  throw new InvalidRequestError('missing_place', `${flag} with a data directory is required: its ${what} are in one`, {
    param: flag,
    hint: `${flag} ./data, or ${others} where both are elsewhere`,
  })
}
