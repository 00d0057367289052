/**
 * Rows of batches. Whoever answers one holds its newest attempt, and every write of its progress says so.
 */
import type { Selectable } from 'kysely'
import { canonicalId, type IdSource } from '#base/util/ids.js'
import type { Tenant } from '#service/operations/access/principal.js'
import type { Database } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import { readOneOf, storableText } from '#service/storage/row-values.js'
import { announce } from '#service/storage/schema-part.js'
import { BATCH_STATUSES, type BatchError, type BatchStatus, type BatchUsage } from '../wire.js'
import { type BatchesTable, batchTables } from './tables.js'

interface NewBatch {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly keyId: string
  readonly usageProject: string | null
  readonly endpoint: string
  readonly inputFileId: string
  readonly inputSha256: string | null
  readonly metadata: Readonly<Record<string, string>> | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

export interface BatchRecord extends NewBatch {
  readonly status: BatchStatus
  readonly attempt: number
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly usage: BatchUsage | null
  readonly errors: readonly BatchError[]
  readonly outputFileId: string | null
  readonly errorFileId: string | null
  readonly inProgressAtMs: number | null
  readonly finalizingAtMs: number | null
  readonly cancellingAtMs: number | null
  readonly endedAtMs: number | null
}

export const NO_USAGE: BatchUsage = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
}

/** An attempt at a batch. */
export type Attempt = Pick<BatchRecord, 'id' | 'attempt'>

export async function insertBatch(db: Database, batch: NewBatch): Promise<void> {
  await batchTables(db)
    .insertInto('batches')
    .values({
      id: batch.id,
      entity: batch.entity,
      project: batch.project,
      key_id: batch.keyId,
      usage_project: batch.usageProject,
      endpoint: batch.endpoint,
      input_file_id: batch.inputFileId,
      input_sha256: batch.inputSha256,
      metadata: batch.metadata === null ? null : JSON.stringify(batch.metadata),
      status: 'validating',
      attempt: 0,
      total: 0,
      completed: 0,
      failed: 0,
      created_at_ms: batch.createdAtMs,
      expires_at_ms: batch.expiresAtMs,
    })
    .execute()
}

export async function findBatch(db: Database, owner: Tenant, id: string): Promise<BatchRecord | null> {
  const row = await ownedBy(db, owner).where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** Newest first. */
export async function listBatches(db: Database, owner: Tenant, options: PageOptions): Promise<Page<BatchRecord>> {
  let query = ownedBy(db, owner)
  if (options.after !== undefined) {
    if ((await findBatch(db, owner, options.after)) === null) throw unknownCursor(options.after)
    query = query.where('id', '<', options.after)
  }
  const rows = await query
    .orderBy('id', 'desc')
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toRecord)
}

/** Batches of an entity that have not ended. */
export async function countOpen(db: Database, entity: string): Promise<number> {
  const row = await batchTables(db)
    .selectFrom('batches')
    .select((e) => e.fn.countAll().as('count'))
    .where('ended_at_ms', 'is', null)
    .where('entity', '=', entity)
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** All that have not ended, the oldest first. */
export async function listOpen(db: Database): Promise<readonly Pick<BatchRecord, 'id' | 'keyId'>[]> {
  const rows = await batchTables(db)
    .selectFrom('batches')
    .select(['id', 'key_id'])
    .where('ended_at_ms', 'is', null)
    .orderBy('id')
    .execute()
  return rows.map(({ id, key_id: keyId }) => ({ id, keyId }))
}

/** Takes a batch up: from here on nobody else's write counts. Null: it has ended. */
export async function takeUp(db: Database, id: string): Promise<BatchRecord | null> {
  const row = await batchTables(db)
    .updateTable('batches')
    .set((e) => ({ attempt: e('attempt', '+', 1) }))
    .where('id', '=', id)
    .where('ended_at_ms', 'is', null)
    .returningAll()
    .executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** Changes what an attempt may change. @returns the row; null: another attempt has it, or its status is not `from` any more */
export async function change(
  db: Database,
  { id, attempt }: Attempt,
  values: Partial<BatchesTable>,
  from?: BatchStatus,
): Promise<BatchRecord | null> {
  let query = batchTables(db)
    .updateTable('batches')
    .set(values)
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('ended_at_ms', 'is', null)
  if (from !== undefined) query = query.where('status', '=', from)
  const row = await query.returningAll().executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** What an attempt finds of its batch; null: another has it. */
export async function readAttempt(db: Database, { id, attempt }: Attempt): Promise<BatchRecord | null> {
  const row = await batchTables(db)
    .selectFrom('batches')
    .selectAll()
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('ended_at_ms', 'is', null)
    .executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** Tells who wants to hear of it how it has ended: in the transaction in which it did. */
export async function announceBatch(
  db: Database,
  ids: Pick<IdSource, 'uuid'>,
  { id, entity, project, usageProject, status }: BatchRecord,
): Promise<void> {
  await announce(db, { eventId: ids.uuid(), type: `batch.${status}`, entity, project: project ?? usageProject, id })
}

/** Has a batch end with what it has; one that has ended stays as it is. */
export async function askToCancel(db: Database, id: string, nowMs: number): Promise<void> {
  await batchTables(db)
    .updateTable('batches')
    .set({ status: 'cancelling', cancelling_at_ms: nowMs })
    .where('id', '=', id)
    .where('status', 'in', ['validating', 'in_progress', 'finalizing'])
    .execute()
}

function ownedBy(db: Database, owner: Tenant) {
  const query = batchTables(db).selectFrom('batches').selectAll().where('entity', '=', owner.entity)
  return owner.project === null ? query : query.where('project', '=', owner.project)
}

export function errorsText(errors: readonly BatchError[]): string {
  return storableText(JSON.stringify(errors))
}

function toRecord(row: Selectable<BatchesTable>): BatchRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    keyId: row.key_id,
    usageProject: row.usage_project,
    endpoint: row.endpoint,
    inputFileId: row.input_file_id,
    inputSha256: row.input_sha256,
    metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Record<string, string>),
    status: readOneOf(BATCH_STATUSES, row.status, 'status of a batch'),
    attempt: row.attempt,
    total: row.total,
    completed: row.completed,
    failed: row.failed,
    usage: row.usage === null ? null : (JSON.parse(row.usage) as BatchUsage),
    errors: row.errors === null ? [] : (JSON.parse(row.errors) as BatchError[]),
    outputFileId: row.output_file_id,
    errorFileId: row.error_file_id,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
    inProgressAtMs: row.in_progress_at_ms,
    finalizingAtMs: row.finalizing_at_ms,
    cancellingAtMs: row.cancelling_at_ms,
    endedAtMs: row.ended_at_ms,
  }
}
