/**
 * The row of a job's resume point: which blob it is, and how much of the job it covers.
 */
import { type Database, databaseNowMs } from '../database.js'

/** A stored resume point. */
export interface ResumePointRecord {
  /** Checkpoint the job had started from; a point of another parent is worth nothing. */
  readonly parentStep: number
  /** Events posted before the point was made: the next attempt goes on with this position. */
  readonly eventCount: number
  readonly sha256: string
  readonly sizeBytes: number
}

/** Stores a job's point in place of the one before. */
export async function putResumePoint(db: Database, jobId: string, point: ResumePointRecord): Promise<void> {
  const values = {
    parent_step: point.parentStep,
    event_count: point.eventCount,
    sha256: point.sha256,
    size_bytes: point.sizeBytes,
    created_at_ms: databaseNowMs,
  }
  await db
    .insertInto('resume_points')
    .values({ job_id: jobId, ...values })
    .onConflict((conflict) => conflict.column('job_id').doUpdateSet(values))
    .execute()
}

/** The last point of a job that started from `parentStep`; null if there is none. */
export async function findResumePoint(
  db: Database,
  jobId: string,
  parentStep: number,
): Promise<ResumePointRecord | null> {
  const row = await db
    .selectFrom('resume_points')
    .selectAll()
    .where('job_id', '=', jobId)
    .where('parent_step', '=', parentStep)
    .executeTakeFirst()
  if (row === undefined) return null
  return {
    parentStep: row.parent_step,
    eventCount: row.event_count,
    sha256: row.sha256,
    sizeBytes: Number(row.size_bytes),
  }
}

/** Forgets the point of a job: it has ended. */
export async function deleteResumePoint(db: Database, jobId: string): Promise<void> {
  await db.deleteFrom('resume_points').where('job_id', '=', jobId).execute()
}
