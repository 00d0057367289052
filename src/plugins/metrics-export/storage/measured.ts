/**
 * What is read of jobs and their models to be told to others: rows of the core, as they stand.
 */
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { readNumbers } from '#service/storage/row-values.js'

/** A model one of whose jobs runs, or ended a while ago. */
export interface ActiveModel {
  readonly id: string
  readonly entity: string
  readonly project: string
  readonly name: string
  readonly baseModel: string
  readonly createdAtMs: number
  /** Of its newest such job. */
  readonly kind: string
  readonly jobId: string
  readonly isRunning: boolean
}

const WHAT = 'gradient step'
/** Names of models in a scrape, or sent in one turn, have an end. */
const MOST_MODELS = 500

/** @param sinceMs jobs that ended longer ago are not looked at */
export async function listActiveModels(db: Database, sinceMs: number): Promise<readonly ActiveModel[]> {
  const rows = await db
    .selectFrom('training_jobs as job')
    .innerJoin('models as model', 'model.id', 'job.model_id')
    .select(['model.id', 'model.entity', 'model.project', 'model.name', 'model.base_model', 'model.created_at_ms'])
    .select(['job.id as job_id', 'job.kind', 'job.status'])
    .where((e) => e.or([e('job.status', '=', 'running'), e('job.ended_at_ms', '>=', e(databaseNowMs, '-', sinceMs))]))
    .where('job.started_at_ms', 'is not', null)
    .orderBy('job.started_at_ms', 'desc')
    .limit(MOST_MODELS)
    .execute()
  const newest = new Map<string, ActiveModel>()
  for (const row of rows) {
    if (newest.has(row.id)) continue
    const { id, entity, project, name, base_model: baseModel, created_at_ms: createdAtMs } = row
    const job = { kind: row.kind, jobId: row.job_id, isRunning: row.status === 'running' }
    newest.set(id, { ...{ id, entity, project, name, baseModel, createdAtMs }, ...job })
  }
  return [...newest.values()]
}

/** What the newest gradient step of a job measured; null before its first. */
export async function findNewestStep(db: Database, jobId: string): Promise<Readonly<Record<string, number>> | null> {
  const row = await db
    .selectFrom('events')
    .select('data')
    .where('job_id', '=', jobId)
    .where('type', '=', 'gradient_step')
    .orderBy('position', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row === undefined ? null : readNumbers(row.data, WHAT)
}

/** A gradient step of a model, counted through all of its jobs from 1 on. */
export interface MeasuredStep {
  readonly number: number
  readonly atMs: number
  readonly numbers: Readonly<Record<string, number>>
}

/** Gradient steps behind the first `after` ones, oldest first, at most `limit`. */
export async function listSteps(
  db: Database,
  modelId: string,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly MeasuredStep[]> {
  const rows = await db
    .selectFrom('events as event')
    .innerJoin('training_jobs as job', 'job.id', 'event.job_id')
    .select(['event.data', 'event.created_at_ms'])
    .where('job.model_id', '=', modelId)
    .where('event.type', '=', 'gradient_step')
    // one job of a model runs at a time, and ids of jobs grow
    .orderBy('job.id')
    .orderBy('event.position')
    .offset(after)
    .limit(limit)
    .execute()
  return rows.map((row, i) => ({
    number: after + i + 1,
    atMs: row.created_at_ms,
    numbers: readNumbers(row.data, WHAT),
  }))
}

/** Seconds since the oldest job that waits for a worker was created; 0 where none waits. */
export async function readLongestWait(db: Database): Promise<number> {
  const row = await db
    .selectFrom('training_jobs')
    .select((e) => e(databaseNowMs, '-', e.fn.min('created_at_ms')).as('wait_ms'))
    .where('status', '=', 'queued')
    .executeTakeFirst()
  return Math.max(0, Number(row?.wait_ms ?? 0)) / 1000
}
