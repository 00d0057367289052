/**
 * Which blobs rows still name. A column that names a blob and is not read here loses its blob to the sweeper.
 */
import type { Database } from '../database.js'

/** Digests of all blobs in use. */
export async function listReferencedBlobs(db: Database): Promise<ReadonlySet<string>> {
  const referenced = new Set<string>()
  for (const row of await db.selectFrom('checkpoint_files').select('sha256').distinct().execute()) {
    referenced.add(row.sha256)
  }
  for (const row of await db.selectFrom('job_files').select('sha256').distinct().execute()) referenced.add(row.sha256)
  for (const row of await db.selectFrom('resume_points').select('sha256').execute()) referenced.add(row.sha256)
  for (const row of await db.selectFrom('files').select('sha256').distinct().execute()) referenced.add(row.sha256)
  for (const row of await db.selectFrom('trajectory_logs').select('body_sha256').distinct().execute()) {
    referenced.add(row.body_sha256)
  }
  for (const row of await db.selectFrom('training_jobs').select('input_sha256').distinct().execute()) {
    if (row.input_sha256 !== null) referenced.add(row.input_sha256)
  }
  for (const row of await db.selectFrom('training_jobs').select('validation_sha256').distinct().execute()) {
    if (row.validation_sha256 !== null) referenced.add(row.validation_sha256)
  }
  for (const row of await db.selectFrom('wandb_artifact_files').select('sha256').distinct().execute()) {
    referenced.add(row.sha256)
  }
  for (const row of await db.selectFrom('wandb_run_files').select('sha256').distinct().execute()) {
    referenced.add(row.sha256)
  }
  for (const row of await db.selectFrom('wandb_artifacts').select('manifest_sha256').execute()) {
    if (row.manifest_sha256 !== null) referenced.add(row.manifest_sha256)
  }
  return referenced
}
