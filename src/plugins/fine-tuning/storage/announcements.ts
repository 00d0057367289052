/**
 * How fine-tuning jobs have ended, announced in OpenAI's words beside what the core and loops say of the job or loop behind each.
 */
import type { Database } from '#service/storage/database.js'
import { type Announcement, announce } from '#service/storage/schema-part.js'
import { toFineTuningId } from '../to-openai.js'
import { fineTuningTables } from './tables.js'

/** A loop has ended. */
export async function announceLoop(db: Database, announcement: Announcement): Promise<void> {
  const { type, id } = announcement
  if (!type.startsWith('loop.')) return
  const row = await fineTuningTables(db)
    .selectFrom('fine_tuning_loops')
    .select('loop_id')
    .where('loop_id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return
  await announce(db, { ...announcement, type: `fine_tuning.job.${type.slice('loop.'.length)}`, id: toFineTuningId(id) })
}

/** A training job began or ended. */
export async function announceJob(db: Database, eventId: string, jobId: string): Promise<void> {
  const row = await fineTuningTables(db)
    .selectFrom('fine_tuning_jobs as f')
    .innerJoin('events', 'events.job_id', 'f.job_id')
    .select(['f.entity', 'f.project', 'events.type', 'events.data'])
    .where('f.job_id', '=', jobId)
    .where('events.id', '=', eventId)
    .executeTakeFirst()
  if (row === undefined || row.type === 'training_started') return
  const { entity, project } = row
  const type = `fine_tuning.job.${row.type === 'training_ended' ? 'succeeded' : failureOf(row.data)}`
  await announce(db, { eventId, type, entity, project, id: toFineTuningId(jobId) })
}

function failureOf(data: string): 'failed' | 'cancelled' {
  const { error_code: code } = JSON.parse(data) as { readonly error_code?: string }
  return code === 'cancelled' || code === 'model_deleted' ? 'cancelled' : 'failed'
}
