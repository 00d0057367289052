/**
 * Rows of logged trajectory groups: the bodies are blobs; metrics of repeated logs are pooled by split and step.
 */
import type { Selectable } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { readNumbers, readObject } from './row-values.js'
import type { TrajectoryLogsTable } from './schema.js'

export interface NewTrajectoryLog {
  readonly id: string
  readonly modelId: string
  readonly split: string
  readonly step: number
  readonly bodySha256: string
  readonly groupCount: number
  readonly trajectoryCount: number
  readonly metrics: Readonly<Record<string, number>>
}

export async function insertTrajectoryLog(db: Database, log: NewTrajectoryLog): Promise<void> {
  await db
    .insertInto('trajectory_logs')
    .values({
      id: log.id,
      model_id: log.modelId,
      split: log.split,
      step: log.step,
      body_sha256: log.bodySha256,
      group_count: log.groupCount,
      trajectory_count: log.trajectoryCount,
      metrics: JSON.stringify(log.metrics),
      created_at_ms: databaseNowMs,
    })
    .execute()
}

/** One log call as it was stored. */
export interface TrajectoryLogRecord extends NewTrajectoryLog {
  readonly createdAtMs: number
}

/** Logs of a model, newest first. */
export async function listTrajectoryLogs(
  db: Database,
  modelId: string,
  filter: PageOptions & { readonly split?: string | undefined; readonly step?: number | undefined },
): Promise<Page<TrajectoryLogRecord>> {
  let query = db.selectFrom('trajectory_logs').selectAll().where('model_id', '=', modelId)
  if (filter.split !== undefined) query = query.where('split', '=', filter.split)
  if (filter.step !== undefined) query = query.where('step', '=', filter.step)
  if (filter.after !== undefined) {
    if ((await findTrajectoryLog(db, modelId, filter.after)) === null) throw unknownCursor(filter.after)
    query = query.where('id', '<', filter.after)
  }
  const rows = await query
    .orderBy('id', 'desc')
    .limit(filter.limit + 1)
    .execute()
  return toPage(rows, filter.limit, toTrajectoryLog)
}

/** A log of a model by its id. */
export async function findTrajectoryLog(
  db: Database,
  modelId: string,
  id: string,
): Promise<TrajectoryLogRecord | null> {
  const row = await db
    .selectFrom('trajectory_logs')
    .selectAll()
    .where('id', '=', id)
    .where('model_id', '=', modelId)
    .executeTakeFirst()
  return row === undefined ? null : toTrajectoryLog(row)
}

/** The newest log of the same groups under a split of a model, if it is not older than `withinMs`. */
export async function findRepeatedLog(
  db: Database,
  log: Pick<NewTrajectoryLog, 'modelId' | 'split' | 'bodySha256'>,
  withinMs: number,
): Promise<TrajectoryLogRecord | null> {
  const row = await db
    .selectFrom('trajectory_logs')
    .selectAll()
    .where('model_id', '=', log.modelId)
    .where('split', '=', log.split)
    .where('body_sha256', '=', log.bodySha256)
    .where((e) => e('created_at_ms', '>', e(databaseNowMs, '-', withinMs)))
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row === undefined ? null : toTrajectoryLog(row)
}

function toTrajectoryLog(row: Selectable<TrajectoryLogsTable>): TrajectoryLogRecord {
  return {
    id: row.id,
    modelId: row.model_id,
    split: row.split,
    step: row.step,
    bodySha256: row.body_sha256,
    groupCount: row.group_count,
    trajectoryCount: row.trajectory_count,
    metrics: readNumbers(row.metrics, 'metrics of a trajectory log'),
    createdAtMs: row.created_at_ms,
  }
}

/** The pooled metrics of a split at a step, as JSON; null before its first log. */
export async function findSplitTotals(
  db: Database,
  key: { readonly modelId: string; readonly step: number; readonly split: string },
): Promise<JsonObject | null> {
  const row = await db
    .selectFrom('split_metrics')
    .select('totals')
    .where('model_id', '=', key.modelId)
    .where('step', '=', key.step)
    .where('split', '=', key.split)
    .executeTakeFirst()
  return row === undefined ? null : readObject(row.totals, 'totals of a split')
}

/** Replaces them; call in the transaction that read them. */
export async function putSplitTotals(
  db: Database,
  key: { readonly modelId: string; readonly step: number; readonly split: string },
  totals: JsonObject,
): Promise<void> {
  const text = JSON.stringify(totals)
  await db
    .insertInto('split_metrics')
    .values({ model_id: key.modelId, step: key.step, split: key.split, totals: text })
    .onConflict((conflict) => conflict.columns(['model_id', 'step', 'split']).doUpdateSet({ totals: text }))
    .execute()
}
