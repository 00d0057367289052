/**
 * What rows of fine-tuning jobs of every method have alike: whose they are, the request as it came, and what came of it. Each
 * stands beside a training job or a loop, whose id is its own.
 */
import type { Selectable } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage } from '#service/storage/paging.js'
import { readObject } from '#service/storage/row-values.js'
import { type FineTuningTables, fineTuningTables, type RequestColumns } from './tables.js'

/** A fine-tuning job's request. */
export interface RequestRecord {
  readonly entity: string
  readonly project: string
  readonly requestDigest: string
  readonly request: JsonObject
  readonly trainedName: string
  readonly hyperparameters: JsonObject
  /** The result file that was made; it may have been deleted since. */
  readonly resultFileId: string | null
  readonly createdAtMs: number
}

export type Owner = { readonly entity: string; readonly project: string | null }

export function toRequest(row: Selectable<RequestColumns>): RequestRecord {
  return {
    entity: row.entity,
    project: row.project,
    requestDigest: row.request_digest,
    request: readObject(row.request, 'request of a fine-tuning job'),
    trainedName: row.trained_name,
    hyperparameters: readObject(row.hyperparameters, 'hyperparameters of a fine-tuning job'),
    resultFileId: row.result_file_id,
    createdAtMs: row.created_at_ms,
  }
}

/** Columns of a new row. */
export const fromRequest = (request: Omit<RequestRecord, 'resultFileId' | 'createdAtMs'>) => ({
  entity: request.entity,
  project: request.project,
  request_digest: request.requestDigest,
  request: JSON.stringify(request.request),
  trained_name: request.trainedName,
  hyperparameters: JSON.stringify(request.hyperparameters),
  result_file_id: null,
  created_at_ms: databaseNowMs,
})

/** Tables of fine-tuning jobs, with the column of their ids. */
type Keyed = readonly ['fine_tuning_jobs', 'job_id'] | readonly ['fine_tuning_loops', 'loop_id']

/** Queries of one table. */
export function createQueries<K extends Keyed, R>(keyed: K, toRecord: (row: Selectable<FineTuningTables[K[0]]>) => R) {
  // both tables have what is asked for here: written once, in the words of the first
  const [table, key] = keyed as readonly ['fine_tuning_jobs', 'job_id']
  const read = (row: unknown): R => toRecord(row as Selectable<FineTuningTables[K[0]]>)

  function ownedBy(db: Database, owner: Owner) {
    const query = fineTuningTables(db).selectFrom(table).selectAll().where('entity', '=', owner.entity)
    return owner.project === null ? query : query.where('project', '=', owner.project)
  }

  return {
    find: async (db: Database, owner: Owner, id: string): Promise<R | null> => {
      const row = await ownedBy(db, owner).where(key, '=', id).executeTakeFirst()
      return row === undefined ? null : read(row)
    },
    /** The newest one made by the same request lately, by the database's clock. */
    findByDigest: async (
      db: Database,
      owner: Owner,
      repeated: { readonly requestDigest: string; readonly withinMs: number },
    ): Promise<R | null> => {
      const row = await ownedBy(db, owner)
        .where('request_digest', '=', repeated.requestDigest)
        .where((where) => where('created_at_ms', '>', where(databaseNowMs, '-', repeated.withinMs)))
        .orderBy(key, 'desc')
        .executeTakeFirst()
      return row === undefined ? null : read(row)
    },
    /** Newest first. @param options.after id of a training job or a loop */
    list: async (db: Database, owner: Owner, options: PageOptions): Promise<Page<R>> => {
      let query = ownedBy(db, owner)
      if (options.after !== undefined) query = query.where(key, '<', options.after)
      const rows = await query
        .orderBy(key, 'desc')
        .limit(options.limit + 1)
        .execute()
      return toPage(rows, options.limit, read)
    },
    /** Notes what was made when it had ended. @returns whether nobody noted it before */
    setResult: async (
      db: Database,
      id: string,
      result: Partial<Pick<FineTuningTables['fine_tuning_jobs'], 'trained_tokens' | 'result_file_id'>>,
    ): Promise<boolean> => {
      const { numUpdatedRows } = await fineTuningTables(db)
        .updateTable(table)
        .where(key, '=', id)
        .where('result_file_id', 'is', null)
        .set(result)
        .executeTakeFirst()
      return numUpdatedRows > 0n
    },
  }
}
