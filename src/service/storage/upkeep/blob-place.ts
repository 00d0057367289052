/**
 * Where a database's blobs are kept, and whether a store is that place: rows that name bytes of somewhere else are of no use, and two
 * databases must not sweep one store.
 */
import { ConflictError, StorageError } from '#base/errors/errors.js'
import type { RemoteBlobs } from '../blobs/remote-blobs.js'
import type { BlobStore } from '../blobs.js'
import type { Database } from '../database.js'
import { listReferencedBlobs } from './blob-references.js'
import { hasColumn } from './catalog.js'
import type { Adoption } from './ownership.js'

/** Null: the data directory; also of a database of an earlier version. */
export async function readBlobPlace(db: Database): Promise<string | null> {
  if (!(await hasColumn(db, 'database_identity', 'blob_store'))) return null
  return (await db.selectFrom('database_identity').select('blob_store').executeTakeFirst())?.blob_store ?? null
}

/** What people call a place. */
export function describePlace(place: string | null): string {
  return place ?? 'the data directory'
}

/**
 * Before anything is changed: a store that is another one than before must have every blob that rows name.
 *
 * @throws {StorageError} `blobs_elsewhere`
 */
export async function assertBlobsAreIn(
  place: string | null,
  { db, blobs, dataDir }: { readonly db: Database; readonly blobs: BlobStore; readonly dataDir: string },
): Promise<void> {
  const before = await readBlobPlace(db)
  if (before === place) return
  const missing = new Set(await listReferencedBlobs(db))
  if (missing.size > 0) for await (const sha256 of blobs.list()) missing.delete(sha256)
  const [first] = missing
  if (first === undefined) return
  const count = `${missing.size} blob${missing.size === 1 ? '' : 's'}`
  const [from, to] = [before, place].map(
    (each) => `${each?.replace(/\?.*$/, '') ?? `"${dataDir}/blobs`}/sha256${each === null ? '"' : ''}`,
  )
  throw new StorageError(
    'blobs_elsewhere',
    `${describePlace(place)} lacks ${count} that the database names, the first is ${first.slice(0, 12)}: they were kept in ${describePlace(before)}`,
    {
      hint: `start with ${before === null ? 'no --blob-store' : `--blob-store '${before}'`}, or copy them first: keys and files have the same names, so aws s3 sync ${from} ${to} does it`,
    },
  )
}

/**
 * Before anything is changed: a store belongs to one database.
 *
 * @throws {ConflictError} `blob_store_foreign`
 */
export async function assertOwnBlobs(store: RemoteBlobs, db: Database, adoption: Adoption): Promise<void> {
  const owner = await store.readOwner()
  if (owner === null || adoption.ofEmpty || adoption.ofOther) return
  const known = await db.selectFrom('database_identity').select('id').executeTakeFirst()
  if (known?.id !== owner) throw foreign(store)
}

/** The place is this database's from now on. @throws {ConflictError} `blob_store_foreign` when another server came first */
export async function claimPlace(store: RemoteBlobs | null, db: Database, adoption: Adoption): Promise<void> {
  const { id } = await db.selectFrom('database_identity').select('id').executeTakeFirstOrThrow()
  if (store !== null && (await store.readOwner()) !== id) {
    const isNew = !adoption.ofEmpty && !adoption.ofOther
    if (!(await store.writeOwner(id, { isNew })) && (await store.readOwner()) !== id) throw foreign(store)
  }
  await db
    .updateTable('database_identity')
    .set({ blob_store: store?.name ?? null })
    .execute()
}

function foreign(store: RemoteBlobs): ConflictError {
  return new ConflictError('blob_store_foreign', `${store.name} belongs to another database`, {
    hint: 'name another prefix in --blob-store; trainyard serve --adopt-database takes this one over and deletes nothing that it does not know',
  })
}
