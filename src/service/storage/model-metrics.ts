/**
 * Rows of metrics: numbers of a model at a step. They belong to the model and not to a checkpoint, so that they stay when weights go.
 */
import { METRIC_SOURCES, type MetricSource } from '#contract/wire/model-metrics.js'
import { type Database, databaseNowMs } from './database.js'
import { readNumbers, readOneOf } from './row-values.js'

/** By full name. */
export type Metrics = Readonly<Record<string, number>>

/** What one source recorded at a step. */
export interface StepMetrics {
  readonly step: number
  readonly source: MetricSource
  readonly metrics: Metrics
  /** When it was first recorded. */
  readonly createdAtMs: number
}

export interface MetricsPlace {
  readonly modelId: string
  readonly step: number
  readonly source: MetricSource
}

const WHAT = 'metrics of a model'
/** Stands between a training session and its request in the `job_id` of the checkpoint that the request saved. */
export const SAVED_BY = ':request:'

/** Adds to what a source recorded at a step; equal names are replaced. Call inside a transaction. Nothing to add makes no row. */
export async function putMetrics(db: Database, { modelId, step, source }: MetricsPlace, metrics: Metrics) {
  if (Object.keys(metrics).length === 0) return
  const before = await db
    .selectFrom('model_metrics')
    .select('metrics')
    .where('model_id', '=', modelId)
    .where('step', '=', step)
    .where('source', '=', source)
    .executeTakeFirst()
  const text = JSON.stringify({ ...(before === undefined ? {} : readNumbers(before.metrics, WHAT)), ...metrics })
  await db
    .insertInto('model_metrics')
    .values({ model_id: modelId, step, source, metrics: text, created_at_ms: databaseNowMs })
    .onConflict((conflict) => conflict.columns(['model_id', 'step', 'source']).doUpdateSet({ metrics: text }))
    .execute()
}

/** Everything recorded of a model, by step; of one step what the job recorded before what was logged. */
export async function listMetrics(
  db: Database,
  modelId: string,
  range: { readonly from: number; readonly to: number } = { from: 0, to: Number.MAX_SAFE_INTEGER },
): Promise<readonly StepMetrics[]> {
  const rows = await db
    .selectFrom('model_metrics')
    .select(['step', 'source', 'metrics', 'created_at_ms'])
    .where('model_id', '=', modelId)
    .where('step', '>=', range.from)
    .where('step', '<=', range.to)
    .orderBy('step')
    .orderBy('source')
    .execute()
  return rows.map((row) => ({
    step: row.step,
    source: readOneOf(METRIC_SOURCES, row.source, 'source of metrics'),
    metrics: readNumbers(row.metrics, WHAT),
    createdAtMs: row.created_at_ms,
  }))
}

/** The numbers of each step in a range, both ends included; the job's own win over what was logged. */
export async function findMetrics(
  db: Database,
  modelId: string,
  range: { readonly from: number; readonly to: number },
): Promise<ReadonlyMap<number, Metrics>> {
  const found = new Map<number, Metrics>()
  // the job's own come first
  for (const { step, metrics } of await listMetrics(db, modelId, range)) {
    found.set(step, { ...metrics, ...found.get(step) })
  }
  return found
}

/** What made a step: a job, or a training session. */
interface StepMaker {
  readonly jobId: string | null
  readonly sessionId: string | null
}

/** Who made each step of a model in a range, both ends included; steps of jobs also where their checkpoints are gone. */
export async function listStepMakers(
  db: Database,
  modelId: string,
  range: { readonly from: number; readonly to: number },
): Promise<ReadonlyMap<number, StepMaker>> {
  const jobs = await db
    .selectFrom('training_jobs')
    .select(['step', 'id'])
    .where('model_id', '=', modelId)
    .where('step', '>=', range.from)
    .where('step', '<=', range.to)
    .execute()
  const saves = await db
    .selectFrom('checkpoints')
    .select(['step', 'job_id'])
    .where('model_id', '=', modelId)
    .where('step', '>=', range.from)
    .where('step', '<=', range.to)
    .where('job_id', 'like', `%${SAVED_BY}%`)
    .execute()
  return new Map<number, StepMaker>([
    ...saves.map(({ step, job_id: id }) => [step, { jobId: null, sessionId: id.split(SAVED_BY)[0] ?? null }] as const),
    ...jobs.flatMap(({ step, id }) => (step === null ? [] : [[step, { jobId: id, sessionId: null }] as const])),
  ])
}
