/**
 * Which blobs rows still name. A column that names a blob and is listed neither here nor by a plugin (`TableFacts`) loses its
 * blob to the sweeper.
 */
import { sql } from 'kysely'
import type { Database } from '../database.js'
import { partsOf } from '../schema-part.js'
import { listColumns } from './catalog.js'

type BlobColumn = readonly [table: string, column: string]

/** The core's columns that name blobs, by table. Each has triggers that note what it lets go (`migrations/`). */
const BLOB_COLUMNS: readonly BlobColumn[] = [
  ['checkpoint_files', 'sha256'],
  ['job_files', 'sha256'],
  ['resume_points', 'sha256'],
  ['files', 'sha256'],
  ['trajectory_logs', 'body_sha256'],
  ['training_jobs', 'input_sha256'],
  ['training_jobs', 'validation_sha256'],
  ['kept_training_data', 'data_sha256'],
  ['kept_training_data', 'rollouts_sha256'],
  ['session_files', 'sha256'],
  ['session_weight_files', 'sha256'],
]

/** Every column that names blobs, those of plugins too. */
export function blobColumnsOf(db: Database): readonly BlobColumn[] {
  const added = partsOf(db).flatMap(({ tables }) =>
    Object.entries(tables).flatMap(([table, { blobs = [] }]) => blobs.map((column) => [table, column] as const)),
  )
  return [...BLOB_COLUMNS, ...added]
}

/** Digests of all blobs in use. */
export async function listReferencedBlobs(db: Database): Promise<ReadonlySet<string>> {
  return new Set((await mapNamers(db)).keys())
}

/** Digests of all blobs in use, each with the tables whose rows name it. */
export async function mapNamers(db: Database): Promise<ReadonlyMap<string, readonly string[]>> {
  const namers = new Map<string, string[]>()
  // most blobs have the same namers: one list serves all of those
  for (const [table, column] of await presentColumns(db)) {
    const name = sql.ref(column)
    const { rows } = await sql<{
      sha256: string
    }>`select distinct ${name} as sha256 from ${sql.table(table)} where ${name} is not null`.execute(db)
    const alone = [table]
    for (const { sha256 } of rows) {
      const before = namers.get(sha256)
      if (before === undefined) namers.set(sha256, alone)
      else if (!before.includes(table)) namers.set(sha256, [...before, table])
    }
  }
  return namers
}

/** A database of an earlier version has fewer. */
async function presentColumns(db: Database): Promise<readonly BlobColumn[]> {
  const present = new Set((await listColumns(db)).map((column) => `${column.table}.${column.name}`))
  return blobColumnsOf(db).filter(([table, column]) => present.has(`${table}.${column}`))
}
