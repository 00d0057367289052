/**
 * Rows of files a running attempt has uploaded: they become checkpoint files when the job completes.
 */
import type { CheckpointFileRecord } from '../checkpoints.js'
import type { Database } from '../database.js'

/** Stores a file of an attempt; the same name again replaces it. */
export async function putJobFile(
  db: Database,
  owner: { readonly jobId: string; readonly attempt: number },
  file: CheckpointFileRecord,
): Promise<void> {
  await db
    .insertInto('job_files')
    .values({
      job_id: owner.jobId,
      attempt: owner.attempt,
      name: file.name,
      sha256: file.sha256,
      size_bytes: file.sizeBytes,
    })
    .onConflict((conflict) =>
      conflict.columns(['job_id', 'attempt', 'name']).doUpdateSet({ sha256: file.sha256, size_bytes: file.sizeBytes }),
    )
    .execute()
}

/** Files one attempt has uploaded, by name. */
export async function listJobFiles(
  db: Database,
  owner: { readonly jobId: string; readonly attempt: number },
): Promise<readonly CheckpointFileRecord[]> {
  const rows = await db
    .selectFrom('job_files')
    .selectAll()
    .where('job_id', '=', owner.jobId)
    .where('attempt', '=', owner.attempt)
    .orderBy('name')
    .execute()
  return rows.map((row) => ({ name: row.name, sha256: row.sha256, sizeBytes: row.size_bytes }))
}

/** Forgets the files of every attempt of a job. */
export async function deleteJobFiles(db: Database, jobId: string): Promise<void> {
  await db.deleteFrom('job_files').where('job_id', '=', jobId).execute()
}
