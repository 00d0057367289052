/**
 * Rows of logged trajectory groups: the bodies are blobs; metrics of repeated logs are pooled by split and step.
 */
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from './database.js'
import { readObject } from './row-values.js'

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
