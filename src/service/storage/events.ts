/**
 * Rows of training job events: append-only, numbered from 0 inside a job.
 */

import type { JsonObject } from '#base/util/json.js'
import { EVENT_TYPES, type EventType } from '#contract/wire/job-words.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { readObject, readOneOf } from './row-values.js'
import { partsOf } from './schema-part.js'

export interface EventRecord {
  readonly id: string
  readonly jobId: string
  readonly position: number
  readonly type: EventType
  readonly data: JsonObject
  readonly createdAtMs: number
}

export type NewEvent = Pick<EventRecord, 'id' | 'type' | 'data'>

/** How many events a job has: the position of the next one. */
export async function countEvents(db: Database, jobId: string): Promise<number> {
  const row = await db.selectFrom('training_jobs').select('event_count').where('id', '=', jobId).executeTakeFirst()
  return row?.event_count ?? 0
}

/** Rows of one statement: SQLite takes a limited number of parameters. */
const ROWS_PER_INSERT = 500

/**
 * Stores events behind the `position` events there are and counts them; call inside a transaction.
 *
 * @param position what `countEvents` says
 */
export async function insertEvents(
  db: Database,
  jobId: string,
  position: number,
  events: readonly NewEvent[],
): Promise<void> {
  if (events.length === 0) return
  for (let start = 0; start < events.length; start += ROWS_PER_INSERT) {
    const rows = events.slice(start, start + ROWS_PER_INSERT).map((event, i) => ({
      id: event.id,
      job_id: jobId,
      position: position + start + i,
      type: event.type,
      data: JSON.stringify(event.data),
      created_at_ms: databaseNowMs,
    }))
    await db.insertInto('events').values(rows).execute()
  }
  const announced = events.findLast((event) => event.type === 'training_started')?.data['num_sequences']
  const gradientSteps = events.filter((event) => event.type === 'gradient_step').length
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      event_count: e('event_count', '+', events.length),
      gradient_step_count: e('gradient_step_count', '+', gradientSteps),
      ...(typeof announced === 'number' ? { num_sequences: announced } : {}),
    }))
    .where('id', '=', jobId)
    .execute()
  const parts = partsOf(db)
  for (const { id, type } of events) {
    if (type === 'gradient_step') continue
    for (const part of parts) await part.noteEvent?.(db, id, jobId)
  }
}

/** Events of a job, oldest first unless `order` says otherwise. */
export async function listEvents(
  db: Database,
  jobId: string,
  options: PageOptions & { readonly order?: 'asc' | 'desc' },
): Promise<Page<EventRecord>> {
  const order = options.order ?? 'asc'
  let query = db.selectFrom('events').selectAll().where('job_id', '=', jobId)
  if (options.after !== undefined) {
    const cursor = await db
      .selectFrom('events')
      .select('position')
      .where('id', '=', options.after)
      .where('job_id', '=', jobId)
      .executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(options.after)
    query = query.where('position', order === 'asc' ? '>' : '<', cursor.position)
  }
  const rows = await query
    .orderBy('position', order)
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toEvent)
}

function toEvent(row: {
  id: string
  job_id: string
  position: number
  type: string
  data: string
  created_at_ms: number
}): EventRecord {
  return {
    id: row.id,
    jobId: row.job_id,
    position: row.position,
    type: readOneOf(EVENT_TYPES, row.type, 'type of an event'),
    data: readObject(row.data, 'data of an event'),
    createdAtMs: row.created_at_ms,
  }
}
