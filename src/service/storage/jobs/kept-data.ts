/**
 * Rows of what jobs trained on. One is made with its job where data is kept, and holds the job's rows from the beginning, so that
 * the end of a job, however it comes, has nothing to move but what the trainer noted.
 */
import type { Database } from '../database.js'

/** What is kept of a job. */
export interface KeptDataRecord {
  readonly jobId: string
  readonly dataSha256: string
  /** Null until somebody asked the store. */
  readonly dataBytes: number | null
  /** What the trainer noted (`formats/rollouts/`); null where it noted nothing, and until the job has ended. */
  readonly rolloutsSha256: string | null
  readonly rolloutsBytes: number | null
  /** Of RL jobs, once their trainer has said it. */
  readonly groupCount: number | null
  readonly trajectoryCount: number | null
  /** When its job ended; null while it has not. */
  readonly endedAtMs: number | null
}

/** What lists of jobs say of it. */
export type KeptCounts = Pick<KeptDataRecord, 'rolloutsSha256' | 'groupCount' | 'trajectoryCount' | 'endedAtMs'>

/** Under which name a worker's notes of an attempt wait among its files. */
export const ROLLOUTS_FILE = 'rollouts'

/** Keeps the rows of a new job. */
export async function insertKeptData(
  db: Database,
  job: { readonly id: string; readonly modelId: string; readonly inputSha256: string },
): Promise<void> {
  await db
    .insertInto('kept_training_data')
    .values({ job_id: job.id, model_id: job.modelId, data_sha256: job.inputSha256 })
    .execute()
}

/** What is kept of these jobs, by id. */
export async function findKeptData(
  db: Database,
  jobIds: readonly string[],
): Promise<ReadonlyMap<string, KeptDataRecord>> {
  if (jobIds.length === 0) return new Map()
  const rows = await selectKept(db).where('kept.job_id', 'in', jobIds).execute()
  return new Map(rows.map((row) => [row.job_id, toKept(row)]))
}

/** Of jobs that have ended, the newest end first. */
export async function listEndedKeptData(db: Database): Promise<readonly KeptDataRecord[]> {
  const rows = await selectKept(db)
    .where('job.ended_at_ms', 'is not', null)
    .orderBy('job.ended_at_ms', 'desc')
    .orderBy('job.id', 'desc')
    .execute()
  return rows.map(toKept)
}

/** Notes how large the rows of a job are. */
export async function setKeptDataBytes(db: Database, jobId: string, dataBytes: number): Promise<void> {
  await db.updateTable('kept_training_data').set({ data_bytes: dataBytes }).where('job_id', '=', jobId).execute()
}

/** How many groups and trajectories a job has, as its trainer counts them. */
export async function setKeptCounts(
  db: Database,
  jobId: string,
  counts: { readonly groups: number; readonly trajectories: number },
): Promise<void> {
  await db
    .updateTable('kept_training_data')
    .set({ group_count: counts.groups, trajectory_count: counts.trajectories })
    .where('job_id', '=', jobId)
    .execute()
}

/** Takes over what the last attempt of a job that ends has noted; call before the rows of its files go. */
export async function takeRollouts(db: Database, jobId: string): Promise<void> {
  const file = await db
    .selectFrom('job_files')
    .select(['sha256', 'size_bytes'])
    .where('job_id', '=', jobId)
    .where('name', '=', ROLLOUTS_FILE)
    .orderBy('attempt', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (file === undefined) return
  await db
    .updateTable('kept_training_data')
    .set({ rollouts_sha256: file.sha256, rollouts_bytes: file.size_bytes })
    .where('job_id', '=', jobId)
    .execute()
}

/** Forgets what is kept of jobs, so that the sweeper frees it. */
export async function deleteKeptData(db: Database, jobIds: readonly string[]): Promise<number> {
  if (jobIds.length === 0) return 0
  const { numDeletedRows } = await db
    .deleteFrom('kept_training_data')
    .where('job_id', 'in', jobIds)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** The same of all jobs of a model. */
export async function deleteKeptDataOfModel(db: Database, modelId: string): Promise<void> {
  await db.deleteFrom('kept_training_data').where('model_id', '=', modelId).execute()
}

function selectKept(db: Database) {
  return db
    .selectFrom('kept_training_data as kept')
    .innerJoin('training_jobs as job', 'job.id', 'kept.job_id')
    .select([
      'kept.job_id',
      'kept.data_sha256',
      'kept.data_bytes',
      'kept.rollouts_sha256',
      'kept.rollouts_bytes',
      'kept.group_count',
      'kept.trajectory_count',
      'job.ended_at_ms',
    ])
}

type KeptRow = Awaited<ReturnType<ReturnType<typeof selectKept>['execute']>>[number]

function toKept(row: KeptRow): KeptDataRecord {
  return {
    jobId: row.job_id,
    dataSha256: row.data_sha256,
    dataBytes: row.data_bytes,
    rolloutsSha256: row.rollouts_sha256,
    rolloutsBytes: row.rollouts_bytes,
    groupCount: row.group_count,
    trajectoryCount: row.trajectory_count,
    endedAtMs: row.ended_at_ms,
  }
}
