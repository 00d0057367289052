/**
 * Moves all data of a service between data directories and addresses. Blobs go first, each by its digest,
 * then all rows in one transaction, so that no row names a blob that is not there. Ids and digests stay, and every row
 * is compared.
 *
 * The source stays as it is. A move that was killed is started again: blobs already there are not sent again; the
 * target has either no rows, or all of them, which are then only compared.
 */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConflictError } from '#base/errors/errors.js'
import { removeTree } from '#base/util/move-file.js'
import { createShelf } from '#service/operations/base-models/shelf.js'
import { createLocalBlobs, listBlobs } from '#service/storage/blobs/local-blobs.js'
import type { BlobStoreAddress, RemoteBlobs } from '#service/storage/blobs/remote-blobs.js'
import { lockUnchanged } from '#service/storage/data-dir.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { SchemaPart } from '#service/storage/schema-part.js'
import { readBlobPlace } from '#service/storage/upkeep/blob-place.js'
import { mapNamers } from '#service/storage/upkeep/blob-references.js'
import { type CopiedTable, compareRows, copyRows, countRows } from '../storage/copy-rows.js'
import {
  lookAtTarget,
  nameRows,
  type OpenTarget,
  openSource,
  openTarget,
  type SourceRows,
} from '../storage/open-ends.js'
import { type BlobSource, type BlobTarget, type DamagedBlob, moveBlobs, sizeBlobs } from './move-blobs.js'
import {
  assertBlobsOfSource,
  type KnownPlace,
  type MovePlaces,
  type MoveReaders,
  type Place,
  readPlaces,
} from './places.js'
import { checkTargetDirectory, claimTargetDirectory, type TargetDirectory } from './target-directory.js'

export interface MoveOptions extends MoveReaders {
  readonly from: Place
  /** Its directory is the source's where it names none. */
  readonly to: Place
  /** What plugins add to the database. */
  readonly parts: readonly SchemaPart[]
  /** Looks at both and changes nothing. */
  readonly isDryRun: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (text: MoveProgress) => void
}

/** `of` is null for rows, which are not counted before. */
type MoveProgress =
  | { readonly what: 'blobs'; readonly done: number; readonly of: number; readonly bytes: number }
  | { readonly what: 'rows'; readonly done: number; readonly table: string }

export interface MoveResult {
  readonly places: MovePlaces
  /** Empty where rows stay where they are, and where blobs are damaged: then no row was moved. */
  readonly tables: readonly (Pick<CopiedTable, 'name' | 'rows'> & Partial<CopiedTable>)[]
  readonly blobs: number
  readonly bytes: number
  readonly present: number
  readonly damaged: readonly (DamagedBlob & { readonly namedBy: readonly string[] })[]
  /** Added base models of the source's directory that the target's does not have: they are no rows and no blobs. */
  readonly baseModelsLeft: readonly string[]
}

type Moved = Omit<MoveResult, 'baseModelsLeft'>

/**
 * Moves.
 *
 * @throws {InvalidRequestError} `nothing_to_move`, `missing_place`, `invalid_setting`, `row_not_storable`; {NotFoundError} `source_not_found`;
 *   {ConflictError} `data_dir_locked`, `database_in_use`, `schema_differs`, `blobs_elsewhere`, `database_not_empty`, `already_moved`,
 *   `data_dir_not_empty`, `blob_store_foreign`, `blob_store_not_empty`
 */
export async function moveService(options: MoveOptions): Promise<MoveResult> {
  const places = await readPlaces(options.from, options.to, options)
  const ends: (() => unknown)[] = []
  try {
    const moved = await move(places, options, ends)
    return { ...moved, baseModelsLeft: await listBaseModelsLeft(places) }
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

async function move(places: MovePlaces, options: MoveOptions, ends: (() => unknown)[]): Promise<Moved> {
  const { from, to } = places
  if (from.directory !== null) ends.push(await lockUnchanged(from.directory))
  const source = await openSource(from, options.parts)
  ends.push(() => source.close())
  assertBlobsOfSource(await readBlobPlace(source.db), places)
  const namers = await mapNamers(source.db)
  const blobs = { wanted: new Set(namers.keys()), source: await openBlobSource(from, ends) }
  const remote = places.movesBlobs && to.blobAddress !== null ? await openRemote(to.blobAddress, ends) : null
  if (remote !== null) await assertOwnOrEmpty(remote, source.id)
  if (options.isDryRun) return lookOnly(places, source, blobs, namers, remote)

  const directory = await claimTargetDirectory(places, source.id)
  ends.push(() => directory?.release())
  const rows = places.movesRows ? await openTarget(to, source, directory?.isBegun ?? false) : null
  if (rows !== null) ends.push(() => rows.close())
  const moved = places.movesBlobs
    ? await moveBlobs({
        ...blobs,
        target: await openBlobTarget(remote, directory, source.id),
        signal: options.signal,
        onProgress: (done, bytes) => options.onProgress?.({ what: 'blobs', done, of: blobs.wanted.size, bytes }),
      })
    : { blobs: 0, bytes: 0, present: 0, damaged: [] }
  const damaged = moved.damaged.map((blob) => ({ ...blob, namedBy: namers.get(blob.sha256) ?? [] }))
  if (damaged.length > 0) return { places, tables: [], ...moved, damaged }
  await directory?.prepare(from.directory)
  const tables = rows === null ? [] : await moveRows({ source, target: rows, wanted: blobs.wanted, places, options })
  await directory?.finish()
  return { places, tables, ...moved, damaged }
}

async function moveRows({
  source,
  target,
  wanted,
  places,
  options,
}: {
  readonly source: SourceRows
  readonly target: OpenTarget
  /** Blobs that were copied before. */
  readonly wanted: ReadonlySet<string>
  readonly places: MovePlaces
  readonly options: MoveOptions
}): Promise<readonly CopiedTable[]> {
  return inTransaction(source.db, async (reading) => {
    // a row that came since names a blob that nobody copied
    if (places.movesBlobs) await assertNamed(reading, wanted, nameRows(places.from))
    return inTransaction(target.db, (writing) =>
      (target.isFilled ? compareRows : copyRows)({
        source: reading,
        target: writing,
        blobStore: places.to.blobAddress?.name ?? null,
        signal: options.signal,
        onProgress: (table, done) => options.onProgress?.({ what: 'rows', done, table }),
      }),
    )
  })
}

/** @throws {ConflictError} `database_in_use` */
async function assertNamed(db: SourceRows['db'], wanted: ReadonlySet<string>, name: string): Promise<void> {
  for (const [sha256, namedBy] of await mapNamers(db)) {
    if (wanted.has(sha256)) continue
    throw new ConflictError(
      'database_in_use',
      `rows of ${name} were written while blobs were moved: ${namedBy.join(', ')} names ${sha256.slice(0, 12)}`,
      { hint: 'no row was moved; stop what writes there, then move again: what was copied is not copied again' },
    )
  }
}

async function lookOnly(
  places: MovePlaces,
  source: SourceRows,
  blobs: { readonly wanted: ReadonlySet<string>; readonly source: BlobSource },
  namers: ReadonlyMap<string, readonly string[]>,
  remote: RemoteBlobs | null,
): Promise<Moved> {
  const { to, movesRows, movesBlobs } = places
  const isBegun = await checkTargetDirectory(places, source.id)
  if (movesRows) await lookAtTarget(to, source, isBegun)
  const tables = movesRows ? (await countRows(source.db)).filter(({ rows }) => rows > 0) : []
  if (!movesBlobs) return { places, tables, blobs: 0, bytes: 0, present: 0, damaged: [] }
  let present = 0
  const there = remote?.list() ?? listBlobs(join(to.directory ?? '', 'blobs'))
  for await (const sha256 of orNothing(there)) if (blobs.wanted.has(sha256)) present += 1
  const { bytes, damaged } = await sizeBlobs(blobs)
  return {
    places,
    tables,
    blobs: blobs.wanted.size - damaged.length,
    bytes,
    present,
    damaged: damaged.map((blob) => ({ ...blob, namedBy: namers.get(blob.sha256) ?? [] })),
  }
}

async function listBaseModelsLeft({ from, to }: MovePlaces): Promise<readonly string[]> {
  if (from.directory === null || from.directory === to.directory) return []
  const namesIn = async (directory: string): Promise<readonly string[]> => {
    const shelf = createShelf(join(directory, 'base-models'))
    // a directory without the folder has none
    return (await shelf.read().catch(() => [])).map(({ name }) => name)
  }
  const there = to.directory === null ? [] : await namesIn(to.directory)
  return (await namesIn(from.directory)).filter((name) => !there.includes(name))
}

/** A folder that is not there yet holds none. */
async function* orNothing(digests: AsyncGenerator<string>): AsyncGenerator<string> {
  try {
    yield* digests
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  }
}

/** Its folder holds one blob at a time, on its way from one store to another. */
async function openRemote(address: BlobStoreAddress, ends: (() => unknown)[]): Promise<RemoteBlobs> {
  const cachePath = await mkdtemp(join(tmpdir(), 'trainyard-move-'))
  ends.push(() => removeTree(cachePath))
  return address.open({ cachePath })
}

async function openBlobSource({ blobAddress, directory }: KnownPlace, ends: (() => unknown)[]): Promise<BlobSource> {
  if (blobAddress !== null) return { remote: await openRemote(blobAddress, ends) }
  return { root: join(directory ?? '', 'blobs') }
}

async function openBlobTarget(
  remote: RemoteBlobs | null,
  directory: TargetDirectory | null,
  sourceId: string,
): Promise<BlobTarget> {
  if (remote === null) return { files: await createLocalBlobs(join(directory?.path ?? '', 'blobs')) }
  await remote.check()
  // from here on no other database may have it, and a move that is begun again knows it
  if (!(await remote.writeOwner(sourceId, { isNew: true }))) await assertOwnOrEmpty(remote, sourceId)
  return { remote }
}

/** @throws {ConflictError} `blob_store_foreign`, `blob_store_not_empty` */
async function assertOwnOrEmpty(remote: RemoteBlobs, sourceId: string): Promise<void> {
  const owner = await remote.readOwner()
  if (owner === sourceId) return
  const hint = 'name another prefix in --blob-store'
  if (owner !== null) {
    throw new ConflictError('blob_store_foreign', `${remote.name} belongs to another database`, { hint })
  }
  const first = await remote.list().next()
  if (first.done !== true) {
    throw new ConflictError(
      'blob_store_not_empty',
      `${remote.name} holds blobs, and no database says they are its own`,
      {
        hint,
      },
    )
  }
}
