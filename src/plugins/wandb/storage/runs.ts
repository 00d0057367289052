/**
 * Rows of wandb runs and of what was logged to them.
 */
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import { readObject } from '#service/storage/row-values.js'
import { wandbTables } from './tables.js'

export interface RunAddress {
  readonly entity: string
  readonly project: string
  readonly name: string
}

export interface RunRecord extends RunAddress {
  readonly id: string
  readonly displayName: string
  readonly state: string
  readonly attributes: JsonObject
  readonly config: JsonObject
  readonly summary: JsonObject
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** What a client changes of a run; what is left out stays. */
export interface RunChanges {
  readonly displayName?: string | undefined
  readonly state?: string | undefined
  /** Added to what is there. */
  readonly attributes?: JsonObject | undefined
  readonly config?: JsonObject | undefined
  readonly summary?: JsonObject | undefined
}

export interface HistoryLine {
  readonly line: number
  readonly body: string
}

export async function findRun(db: Database, address: RunAddress): Promise<RunRecord | null> {
  const row = await wandbTables(db)
    .selectFrom('wandb_runs')
    .selectAll()
    .where('entity', '=', address.entity)
    .where('project', '=', address.project)
    .where('name', '=', address.name)
    .executeTakeFirst()
  return row === undefined ? null : toRun(row)
}

/** Creates the run or changes it; call inside a transaction. @returns the run and whether it is new */
export async function upsertRun(
  db: Database,
  id: string,
  address: RunAddress,
  changes: RunChanges,
): Promise<{ readonly run: RunRecord; readonly isNew: boolean }> {
  const before = await findRun(db, address)
  const isNew = before === null
  if (isNew) {
    await wandbTables(db)
      .insertInto('wandb_runs')
      .values({
        id,
        entity: address.entity,
        project: address.project,
        name: address.name,
        display_name: address.name,
        state: 'running',
        attributes: '{}',
        config: '{}',
        summary: '{}',
        created_at_ms: databaseNowMs,
        updated_at_ms: databaseNowMs,
      })
      .execute()
  }
  await wandbTables(db)
    .updateTable('wandb_runs')
    .set({
      updated_at_ms: databaseNowMs,
      ...(changes.displayName === undefined ? {} : { display_name: changes.displayName }),
      ...(changes.state === undefined ? {} : { state: changes.state }),
      ...(changes.config === undefined ? {} : { config: JSON.stringify(changes.config) }),
      ...(changes.summary === undefined ? {} : { summary: JSON.stringify(changes.summary) }),
      ...(changes.attributes === undefined
        ? {}
        : { attributes: JSON.stringify({ ...before?.attributes, ...changes.attributes }) }),
    })
    .where('id', '=', before?.id ?? id)
    .execute()
  const run = await findRun(db, address)
  if (run === null) throw new Error('a run vanished inside a transaction')
  return { run, isNew }
}

/** Runs of a project, or those among them with one of `names`, oldest first. */
export async function listRuns(
  db: Database,
  filter: PageOptions & { readonly entity: string; readonly project: string; readonly names?: readonly string[] },
): Promise<Page<RunRecord>> {
  let query = wandbTables(db)
    .selectFrom('wandb_runs')
    .selectAll()
    .where('entity', '=', filter.entity)
    .where('project', '=', filter.project)
  const { names } = filter
  if (names !== undefined) {
    query = query.where((where) => where.or([where('name', 'in', names), where('display_name', 'in', names)]))
  }
  if (filter.after !== undefined) {
    const cursor = await query.where('id', '=', filter.after).executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(filter.after)
    query = query.where('id', '>', filter.after)
  }
  const rows = await query
    .orderBy('id')
    .limit(filter.limit + 1)
    .execute()
  return toPage(rows, filter.limit, toRun)
}

/** Stores lines of history at their places; one that is there already is replaced. */
export async function putHistory(db: Database, runId: string, lines: readonly HistoryLine[]): Promise<void> {
  // in slices: a statement takes a limited number of parameters
  for (let start = 0; start < lines.length; start += 200) {
    await wandbTables(db)
      .insertInto('wandb_history')
      .values(lines.slice(start, start + 200).map(({ line, body }) => ({ run_id: runId, line, body })))
      .onConflict((conflict) =>
        conflict.columns(['run_id', 'line']).doUpdateSet((row) => ({ body: row.ref('excluded.body') })),
      )
      .execute()
  }
}

/** Lines after `afterLine`, in order. */
export async function listHistory(
  db: Database,
  runId: string,
  options: { readonly afterLine: number; readonly limit: number },
): Promise<readonly HistoryLine[]> {
  return wandbTables(db)
    .selectFrom('wandb_history')
    .select(['line', 'body'])
    .where('run_id', '=', runId)
    .where('line', '>', options.afterLine)
    .orderBy('line')
    .limit(options.limit)
    .execute()
}

/** The last line, or null; its place tells how many there are. */
export async function lastHistoryLine(db: Database, runId: string): Promise<HistoryLine | null> {
  const row = await wandbTables(db)
    .selectFrom('wandb_history')
    .select(['line', 'body'])
    .where('run_id', '=', runId)
    .orderBy('line', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row ?? null
}

export interface RunFileRecord {
  readonly name: string
  readonly sha256: string
  readonly sizeBytes: number
}

/** Stores a file of a run; the same name again replaces it. */
export async function putRunFile(db: Database, runId: string, file: RunFileRecord): Promise<void> {
  const values = { sha256: file.sha256, size_bytes: file.sizeBytes }
  await wandbTables(db)
    .insertInto('wandb_run_files')
    .values({ run_id: runId, name: file.name, ...values })
    .onConflict((conflict) => conflict.columns(['run_id', 'name']).doUpdateSet(values))
    .execute()
}

export async function listRunFiles(db: Database, runId: string): Promise<readonly RunFileRecord[]> {
  const rows = await wandbTables(db)
    .selectFrom('wandb_run_files')
    .selectAll()
    .where('run_id', '=', runId)
    .orderBy('name')
    .execute()
  return rows.map((row) => ({ name: row.name, sha256: row.sha256, sizeBytes: row.size_bytes }))
}

function toRun(row: {
  id: string
  entity: string
  project: string
  name: string
  display_name: string
  state: string
  attributes: string
  config: string
  summary: string
  created_at_ms: number
  updated_at_ms: number
}): RunRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    name: row.name,
    displayName: row.display_name,
    state: row.state,
    attributes: readObject(row.attributes, 'attributes of a run'),
    config: readObject(row.config, 'configuration of a run'),
    summary: readObject(row.summary, 'summary of a run'),
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}
