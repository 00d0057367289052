/**
 * Rows of logged trajectory groups: the bodies are blobs, the metrics are kept to average repeated logs.
 */
import { type Database, databaseNowMs } from './database.js'
import { readNumbers } from './row-values.js'

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

/** Mean of each metric over all logs of a model at a step. */
export async function averageLogMetrics(db: Database, modelId: string, step: number): Promise<Record<string, number>> {
  const rows = await db
    .selectFrom('trajectory_logs')
    .select('metrics')
    .where('model_id', '=', modelId)
    .where('step', '=', step)
    .execute()
  const sums = new Map<string, { sum: number; count: number }>()
  for (const row of rows) {
    for (const [name, value] of Object.entries(readNumbers(row.metrics, 'metrics of a trajectory log'))) {
      const entry = sums.get(name) ?? { sum: 0, count: 0 }
      sums.set(name, { sum: entry.sum + value, count: entry.count + 1 })
    }
  }
  return Object.fromEntries([...sums].map(([name, { sum, count }]) => [name, sum / count]))
}
