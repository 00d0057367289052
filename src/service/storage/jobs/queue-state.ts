/**
 * What the order of waiting jobs depends on, read in one go: who waits, who runs, who had the last turn, how long jobs take.
 */
import { type Database, databaseNowMs } from '../database.js'

/** A job that waits. */
export interface WaitingJob {
  readonly id: string
  readonly modelId: string
  /** Entity and project together. */
  readonly projectKey: string
  readonly attempt: number
  /** What it began with; null: any. */
  readonly trainer: string | null
  /** Of its base model; null: not known. */
  readonly weightBytes: number | null
}

/** A job that runs. */
export interface ActiveJob extends WaitingJob {
  /** Time it has run, milliseconds. */
  readonly ranMs: number
  readonly gradientSteps: number
  readonly numSequences: number | null
}

export interface QueueState {
  readonly nowMs: number
  /** In the order of their creation. */
  readonly waiting: readonly WaitingJob[]
  readonly active: readonly ActiveJob[]
  /** Turn of the newest claim: by model id, and by project key. */
  readonly modelTurns: ReadonlyMap<string, number>
  readonly projectTurns: ReadonlyMap<string, number>
  /** Mean time of the latest completed jobs by model id, milliseconds. */
  readonly durations: ReadonlyMap<string, number>
}

/** Completed jobs whose times are looked at. */
const RECENT_JOBS = 200

export async function readQueueState(db: Database): Promise<QueueState> {
  const rows = await db
    .selectFrom('training_jobs')
    .select([
      'id',
      'entity',
      'project',
      'model_id',
      'status',
      'attempt',
      'trainer',
      'weight_bytes',
      'started_at_ms',
      'gradient_step_count',
      'num_sequences',
    ])
    .select(databaseNowMs.as('now_ms'))
    .where('status', 'in', ['queued', 'running'])
    .orderBy('id')
    .execute()
  const nowMs = rows[0]?.now_ms ?? 0
  const jobs = rows.map((row) => ({
    id: row.id,
    modelId: row.model_id,
    projectKey: projectKeyOf(row),
    attempt: row.attempt,
    trainer: row.trainer,
    weightBytes: row.weight_bytes,
    status: row.status,
    ranMs: Math.max(0, nowMs - (row.started_at_ms ?? nowMs)),
    gradientSteps: row.gradient_step_count,
    numSequences: row.num_sequences,
  }))
  return {
    nowMs,
    waiting: jobs.filter((job) => job.status === 'queued'),
    active: jobs.filter((job) => job.status === 'running'),
    ...(await readTurns(db)),
    durations: await readDurations(db),
  }
}

async function readTurns(db: Database): Promise<Pick<QueueState, 'modelTurns' | 'projectTurns'>> {
  const turns = db.selectFrom('training_jobs').where('claim_order', 'is not', null)
  const models = await turns
    .select((e) => ['model_id', e.fn.max('claim_order').as('turn')])
    .groupBy('model_id')
    .execute()
  const projects = await turns
    .select((e) => ['entity', 'project', e.fn.max('claim_order').as('turn')])
    .groupBy(['entity', 'project'])
    .execute()
  return {
    modelTurns: new Map(models.map((row) => [row.model_id, Number(row.turn)])),
    projectTurns: new Map(projects.map((row) => [projectKeyOf(row), Number(row.turn)])),
  }
}

async function readDurations(db: Database): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom('training_jobs')
    .select(['model_id', 'started_at_ms', 'ended_at_ms'])
    .where('status', '=', 'completed')
    .orderBy('id', 'desc')
    .limit(RECENT_JOBS)
    .execute()
  const times = new Map<string, number[]>()
  for (const { model_id: model, started_at_ms: start, ended_at_ms: end } of rows) {
    if (start !== null && end !== null) times.set(model, [...(times.get(model) ?? []), Math.max(0, end - start)])
  }
  return new Map([...times].map(([model, values]) => [model, values.reduce((a, b) => a + b, 0) / values.length]))
}

function projectKeyOf(row: { readonly entity: string; readonly project: string }): string {
  return `${row.entity}/${row.project}`
}
