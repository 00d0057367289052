/**
 * Rows of evals, runs and items. Whoever answers a run holds its newest attempt, and every write of its progress says so.
 */
import type { Selectable } from 'kysely'
import { canonicalId, type IdSource } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import type { Tenant } from '#service/operations/access/principal.js'
import type { Database } from '#service/storage/database.js'
import { type Page, toPage, unknownCursor } from '#service/storage/paging.js'
import { readOneOf, storableText } from '#service/storage/row-values.js'
import { announce } from '#service/storage/schema-part.js'
import type { Criterion } from '../criteria.js'
import { type EvalRun, ITEM_STATUSES, type ItemStatus, type OutputItem, RUN_STATUSES, type RunStatus } from '../wire.js'
import { type EvalItemsTable, type EvalRunsTable, type EvalsTable, evalTables } from './schema-part.js'

type Metadata = Readonly<Record<string, string>> | null

export interface EvalRecord {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly name: string
  readonly metadata: Metadata
  readonly spec: { readonly schema: JsonObject; readonly criteria: readonly Criterion[] }
  readonly createdAtMs: number
}

export interface RunRecord {
  readonly id: string
  readonly evalId: string
  readonly entity: string
  readonly project: string | null
  readonly keyId: string
  readonly usageProject: string | null
  readonly name: string
  readonly metadata: Metadata
  readonly source: JsonObject
  readonly status: RunStatus
  readonly attempt: number
  readonly error: EvalRun['error']
  readonly createdAtMs: number
  readonly endedAtMs: number | null
}

/** What was said of a row. */
export interface ItemResult {
  readonly results: OutputItem['results']
  readonly sample: OutputItem['sample']
  /** Tokens of models that graded, by model. */
  readonly graders: Readonly<Record<string, OutputItem['sample']['usage']>>
}

export interface ItemRecord {
  readonly id: string
  readonly position: number
  readonly status: ItemStatus | 'pending'
  /** JSON. */
  readonly item: string
  readonly result: ItemResult | null
  readonly createdAtMs: number
}

interface Options {
  readonly after?: string | undefined
  readonly limit: number
  readonly order: 'asc' | 'desc'
}

const ROWS_PER_INSERT = 200

export async function insertEval(db: Database, made: EvalRecord): Promise<void> {
  await evalTables(db)
    .insertInto('evals')
    .values({
      id: made.id,
      entity: made.entity,
      project: made.project,
      name: storableText(made.name),
      metadata: textOf(made.metadata),
      spec: storableText(JSON.stringify(made.spec)),
      created_at_ms: made.createdAtMs,
    })
    .execute()
}

export async function findEval(db: Database, owner: Tenant, id: string): Promise<EvalRecord | null> {
  const row = await evalsOf(db, owner).where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toEval(row)
}

export async function listEvals(
  db: Database,
  owner: Tenant,
  { after, limit, order }: Options,
): Promise<Page<EvalRecord>> {
  let query = evalsOf(db, owner)
  if (after !== undefined) {
    if ((await findEval(db, owner, after)) === null) throw unknownCursor(after)
    query = query.where('id', order === 'asc' ? '>' : '<', after)
  }
  const rows = await query
    .orderBy('id', order)
    .limit(limit + 1)
    .execute()
  return toPage(rows, limit, toEval)
}

export async function countEvals(db: Database, entity: string): Promise<number> {
  const query = evalTables(db)
    .selectFrom('evals')
    .select((e) => e.fn.countAll().as('count'))
  return Number((await query.where('entity', '=', entity).executeTakeFirstOrThrow()).count)
}

export async function updateEval(
  db: Database,
  id: string,
  { name, metadata }: { readonly name?: string; readonly metadata?: Metadata },
): Promise<void> {
  const values = {
    ...(name === undefined ? {} : { name: storableText(name) }),
    ...(metadata === undefined ? {} : { metadata: textOf(metadata) }),
  }
  if (Object.keys(values).length > 0)
    await evalTables(db).updateTable('evals').set(values).where('id', '=', id).execute()
}

export async function deleteEval(db: Database, id: string): Promise<void> {
  await evalTables(db).deleteFrom('evals').where('id', '=', id).execute()
}

/** With its rows, which wait to be answered. */
export async function insertRun(
  db: Database,
  ids: Pick<IdSource, 'uuid'>,
  run: Omit<RunRecord, 'status' | 'attempt' | 'error' | 'endedAtMs'>,
  items: readonly string[],
): Promise<void> {
  await evalTables(db)
    .insertInto('eval_runs')
    .values({
      id: run.id,
      eval_id: run.evalId,
      entity: run.entity,
      project: run.project,
      key_id: run.keyId,
      usage_project: run.usageProject,
      name: storableText(run.name),
      metadata: textOf(run.metadata),
      source: storableText(JSON.stringify(run.source)),
      status: 'queued',
      attempt: 0,
      error: null,
      created_at_ms: run.createdAtMs,
      ended_at_ms: null,
    })
    .execute()
  for (let start = 0; start < items.length; start += ROWS_PER_INSERT) {
    const rows = items.slice(start, start + ROWS_PER_INSERT).map((item, i) => ({
      id: `outputitem_${ids.uuid()}`,
      run_id: run.id,
      position: start + i,
      status: 'pending',
      item: storableText(item),
      result: null,
      created_at_ms: run.createdAtMs,
    }))
    await evalTables(db).insertInto('eval_items').values(rows).execute()
  }
}

export async function findRun(db: Database, evalId: string, id: string): Promise<RunRecord | null> {
  const row = await runsOf(db, evalId).where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toRun(row)
}

export async function listRuns(
  db: Database,
  evalId: string,
  { after, limit, order, status }: Options & { readonly status?: RunStatus | undefined },
): Promise<Page<RunRecord>> {
  let query = runsOf(db, evalId)
  if (status !== undefined) query = query.where('status', '=', status)
  if (after !== undefined) {
    if ((await findRun(db, evalId, after)) === null) throw unknownCursor(after)
    query = query.where('id', order === 'asc' ? '>' : '<', after)
  }
  const rows = await query
    .orderBy('id', order)
    .limit(limit + 1)
    .execute()
  return toPage(rows, limit, toRun)
}

export async function deleteRun(db: Database, id: string): Promise<void> {
  await evalTables(db).deleteFrom('eval_runs').where('id', '=', id).execute()
}

/** Runs of an entity that have not ended. */
export async function countOpenRuns(db: Database, entity: string): Promise<number> {
  const query = evalTables(db)
    .selectFrom('eval_runs')
    .select((e) => e.fn.countAll().as('count'))
    .where('ended_at_ms', 'is', null)
  return Number((await query.where('entity', '=', entity).executeTakeFirstOrThrow()).count)
}

/** The oldest that have not ended, of all entities. */
export async function listOpenRuns(db: Database, limit: number): Promise<readonly string[]> {
  const rows = await evalTables(db)
    .selectFrom('eval_runs')
    .select('id')
    .where('ended_at_ms', 'is', null)
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Takes a run up: from here on nobody else's write counts. Null: it has ended. */
export async function takeRunUp(db: Database, id: string): Promise<RunRecord | null> {
  const row = await evalTables(db)
    .updateTable('eval_runs')
    .set((e) => ({ attempt: e('attempt', '+', 1), status: 'in_progress' }))
    .where('id', '=', id)
    .where('ended_at_ms', 'is', null)
    .returningAll()
    .executeTakeFirst()
  return row === undefined ? null : toRun(row)
}

/** Whether the attempt still has its run. */
export async function isHeld(db: Database, { id, attempt }: Pick<RunRecord, 'id' | 'attempt'>): Promise<boolean> {
  const query = evalTables(db).selectFrom('eval_runs').select('id').where('ended_at_ms', 'is', null)
  return (await query.where('id', '=', id).where('attempt', '=', attempt).executeTakeFirst()) !== undefined
}

/** Ends a run, and tells who wants to hear of it. @returns whether it had not ended, and was this attempt's */
export async function endRun(
  db: Database,
  ids: Pick<IdSource, 'uuid'>,
  run: RunRecord,
  end: {
    readonly status: 'completed' | 'failed' | 'canceled'
    readonly error: EvalRun['error']
    readonly nowMs: number
    /** Whoever has it now. */
    readonly isForced?: boolean
  },
): Promise<boolean> {
  const { id, entity } = run
  let query = evalTables(db)
    .updateTable('eval_runs')
    .set({
      status: end.status,
      error: end.error === null ? null : storableText(JSON.stringify(end.error)),
      ended_at_ms: end.nowMs,
    })
    .where('id', '=', id)
    .where('ended_at_ms', 'is', null)
  if (end.isForced !== true) query = query.where('attempt', '=', run.attempt)
  if ((await query.executeTakeFirst()).numUpdatedRows === 0n) return false
  const type = `eval.run.${end.status === 'completed' ? 'succeeded' : end.status}`
  await announce(db, { eventId: ids.uuid(), type, entity, project: run.project ?? run.usageProject, id })
  return true
}

/** Items that wait, in their order. */
export async function listPending(db: Database, runId: string, limit: number): Promise<readonly ItemRecord[]> {
  const rows = await itemsOf(db, runId).where('status', '=', 'pending').orderBy('id').limit(limit).execute()
  return rows.map(toItem)
}

/** Writes what was said of an item, once. Call where the attempt was seen to have its run. */
export async function setResult(
  db: Database,
  id: string,
  { status, result }: { readonly status: ItemStatus; readonly result: ItemResult },
): Promise<void> {
  await evalTables(db)
    .updateTable('eval_items')
    .set({ status, result: storableText(JSON.stringify(result)) })
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .execute()
}

export async function findItem(db: Database, runId: string, id: string): Promise<ItemRecord | null> {
  const row = await itemsOf(db, runId)
    .where('id', '=', canonicalId(id))
    .where('status', '<>', 'pending')
    .executeTakeFirst()
  return row === undefined ? null : toItem(row)
}

/** Those that were measured. */
export async function listItems(
  db: Database,
  runId: string,
  { after, limit, order, status }: Options & { readonly status?: ItemStatus | undefined },
): Promise<Page<ItemRecord>> {
  let query = itemsOf(db, runId).where('status', '<>', 'pending')
  if (status !== undefined) query = query.where('status', '=', status)
  if (after !== undefined) {
    if ((await findItem(db, runId, after)) === null) throw unknownCursor(after)
    query = query.where('id', order === 'asc' ? '>' : '<', after)
  }
  const rows = await query
    .orderBy('id', order)
    .limit(limit + 1)
    .execute()
  return toPage(rows, limit, toItem)
}

/** How many items have which status. */
export async function countItems(db: Database, runId: string): Promise<Readonly<Record<string, number>>> {
  const rows = await evalTables(db)
    .selectFrom('eval_items')
    .select((e) => ['status', e.fn.countAll().as('count')])
    .where('run_id', '=', runId)
    .groupBy('status')
    .execute()
  return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]))
}

/** What was said of each item, some at a time. */
export async function* readResults(db: Database, runId: string): AsyncGenerator<ItemResult> {
  let after = ''
  for (;;) {
    const rows = await itemsOf(db, runId).where('id', '>', after).orderBy('id').limit(ROWS_PER_INSERT).execute()
    for (const { result } of rows.map(toItem)) if (result !== null) yield result
    if (rows.length < ROWS_PER_INSERT) return
    after = rows.at(-1)?.id ?? ''
  }
}

function evalsOf(db: Database, owner: Tenant) {
  const query = evalTables(db).selectFrom('evals').selectAll().where('entity', '=', owner.entity)
  return owner.project === null ? query : query.where('project', '=', owner.project)
}
const runsOf = (db: Database, evalId: string) =>
  evalTables(db).selectFrom('eval_runs').selectAll().where('eval_id', '=', evalId)
const itemsOf = (db: Database, runId: string) =>
  evalTables(db).selectFrom('eval_items').selectAll().where('run_id', '=', runId)

const textOf = (metadata: Metadata): string | null =>
  metadata === null ? null : storableText(JSON.stringify(metadata))
const readMetadata = (text: string | null): Metadata => (text === null ? null : (JSON.parse(text) as Metadata))

function toEval(row: Selectable<EvalsTable>): EvalRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    name: row.name,
    metadata: readMetadata(row.metadata),
    spec: JSON.parse(row.spec) as EvalRecord['spec'],
    createdAtMs: row.created_at_ms,
  }
}

function toRun(row: Selectable<EvalRunsTable>): RunRecord {
  return {
    id: row.id,
    evalId: row.eval_id,
    entity: row.entity,
    project: row.project,
    keyId: row.key_id,
    usageProject: row.usage_project,
    name: row.name,
    metadata: readMetadata(row.metadata),
    source: JSON.parse(row.source) as JsonObject,
    status: readOneOf(RUN_STATUSES, row.status, 'status of a run of an eval'),
    attempt: row.attempt,
    error: row.error === null ? null : (JSON.parse(row.error) as EvalRun['error']),
    createdAtMs: row.created_at_ms,
    endedAtMs: row.ended_at_ms,
  }
}

function toItem(row: Selectable<EvalItemsTable>): ItemRecord {
  return {
    id: row.id,
    position: row.position,
    status: readOneOf([...ITEM_STATUSES, 'pending'], row.status, 'status of an item of an eval'),
    item: row.item,
    result: row.result === null ? null : (JSON.parse(row.result) as ItemResult),
    createdAtMs: row.created_at_ms,
  }
}
