/**
 * Rows of reinforcement jobs: each stands beside the loop that does the work, and is there before it.
 */
import type { Selectable } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import type { Database } from '#service/storage/database.js'
import { readObject } from '#service/storage/row-values.js'
import { type Announcement, announce } from '#service/storage/schema-part.js'
import { toFineTuningId } from '../fine-tuning-id.js'
import { createQueries, fromRequest, type RequestRecord, toRequest } from './requests.js'
import { type FineTuningLoopsTable, fineTuningTables } from './tables.js'

export interface FineTuningLoop extends RequestRecord {
  readonly loopId: string
  /** What was worth saying of the request, as its first events. */
  readonly notes: readonly Note[]
}

export interface Note {
  readonly level: 'info' | 'warn'
  readonly message: string
}

const toLoop = (row: Selectable<FineTuningLoopsTable>): FineTuningLoop => ({
  ...toRequest(row),
  loopId: row.loop_id,
  notes: readObject(row.notes, 'notes of a fine-tuning job')['notes'] as FineTuningLoop['notes'] & JsonObject[],
})

export const fineTuningLoops = createQueries(['fine_tuning_loops', 'loop_id'], toLoop)

export async function insertFineTuningLoop(
  db: Database,
  loop: Omit<FineTuningLoop, 'resultFileId' | 'createdAtMs'>,
): Promise<void> {
  await fineTuningTables(db)
    .insertInto('fine_tuning_loops')
    .values({ ...fromRequest(loop), loop_id: loop.loopId, notes: JSON.stringify({ notes: loop.notes }) })
    .execute()
}

/** A loop has ended: announced in OpenAI's words, too. */
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

export async function deleteFineTuningLoop(db: Database, loopId: string): Promise<void> {
  await fineTuningTables(db).deleteFrom('fine_tuning_loops').where('loop_id', '=', loopId).execute()
}
