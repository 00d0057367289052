/**
 * Rows of reinforcement jobs: each stands beside the loop that does the work, and is there before it.
 */
import type { Selectable } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage } from '#service/storage/paging.js'
import { readObject } from '#service/storage/row-values.js'
import { type FineTuningLoopsTable, fineTuningTables } from './tables.js'

export interface FineTuningLoop {
  readonly loopId: string
  readonly entity: string
  readonly project: string
  readonly requestDigest: string
  readonly request: JsonObject
  readonly trainedName: string
  readonly hyperparameters: JsonObject
  /** What was worth saying of the request, as its first events. */
  readonly notes: readonly Note[]
  /** The result file that was made; it may have been deleted since. */
  readonly resultFileId: string | null
  readonly createdAtMs: number
}

export interface Note {
  readonly level: 'info' | 'warn'
  readonly message: string
}

type Owner = { readonly entity: string; readonly project: string | null }

export async function insertFineTuningLoop(
  db: Database,
  loop: Omit<FineTuningLoop, 'resultFileId' | 'createdAtMs'>,
): Promise<void> {
  await fineTuningTables(db)
    .insertInto('fine_tuning_loops')
    .values({
      loop_id: loop.loopId,
      entity: loop.entity,
      project: loop.project,
      request_digest: loop.requestDigest,
      request: JSON.stringify(loop.request),
      trained_name: loop.trainedName,
      hyperparameters: JSON.stringify(loop.hyperparameters),
      notes: JSON.stringify({ notes: loop.notes }),
      result_file_id: null,
      created_at_ms: databaseNowMs,
    })
    .execute()
}

export async function deleteFineTuningLoop(db: Database, loopId: string): Promise<void> {
  await fineTuningTables(db).deleteFrom('fine_tuning_loops').where('loop_id', '=', loopId).execute()
}

export async function findFineTuningLoop(db: Database, owner: Owner, loopId: string): Promise<FineTuningLoop | null> {
  const row = await ownedBy(db, owner).where('loop_id', '=', loopId).executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** The newest one made by the same request lately. */
export async function findLoopByDigest(
  db: Database,
  owner: Owner,
  repeated: { readonly requestDigest: string; readonly withinMs: number },
): Promise<FineTuningLoop | null> {
  const row = await ownedBy(db, owner)
    .where('request_digest', '=', repeated.requestDigest)
    .where((where) => where('created_at_ms', '>', where(databaseNowMs, '-', repeated.withinMs)))
    .orderBy('loop_id', 'desc')
    .executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** Newest first. @param options.after id of a loop, or of a training job */
export async function listFineTuningLoops(
  db: Database,
  owner: Owner,
  options: PageOptions,
): Promise<Page<FineTuningLoop>> {
  let query = ownedBy(db, owner)
  if (options.after !== undefined) query = query.where('loop_id', '<', options.after)
  const rows = await query
    .orderBy('loop_id', 'desc')
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toRecord)
}

/** @returns whether nobody noted one before */
export async function setLoopResult(db: Database, loopId: string, resultFileId: string): Promise<boolean> {
  const { numUpdatedRows } = await fineTuningTables(db)
    .updateTable('fine_tuning_loops')
    .where('loop_id', '=', loopId)
    .where('result_file_id', 'is', null)
    .set({ result_file_id: resultFileId })
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

function ownedBy(db: Database, owner: Owner) {
  const query = fineTuningTables(db).selectFrom('fine_tuning_loops').selectAll().where('entity', '=', owner.entity)
  return owner.project === null ? query : query.where('project', '=', owner.project)
}

function toRecord(row: Selectable<FineTuningLoopsTable>): FineTuningLoop {
  return {
    loopId: row.loop_id,
    entity: row.entity,
    project: row.project,
    requestDigest: row.request_digest,
    request: readObject(row.request, 'request of a fine-tuning job'),
    trainedName: row.trained_name,
    hyperparameters: readObject(row.hyperparameters, 'hyperparameters of a fine-tuning job'),
    notes: readObject(row.notes, 'notes of a fine-tuning job')['notes'] as FineTuningLoop['notes'] & JsonObject[],
    resultFileId: row.result_file_id,
    createdAtMs: row.created_at_ms,
  }
}
