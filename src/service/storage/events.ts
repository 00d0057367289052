/**
 * Rows of training job events: append-only, numbered from 0 inside a job.
 */
import { EVENT_TYPES, type EventType } from '#api/wire/job-words.js'
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { readObject, readOneOf } from './row-values.js'

export interface EventRecord {
  readonly id: string
  readonly jobId: string
  readonly position: number
  readonly type: EventType
  readonly data: JsonObject
  readonly createdAtMs: number
}

export type NewEvent = Omit<EventRecord, 'createdAtMs'>

/** How many events a job has: the position of the next one. */
export async function countEvents(db: Database, jobId: string): Promise<number> {
  const row = await db
    .selectFrom('events')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('job_id', '=', jobId)
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

export async function insertEvent(db: Database, event: NewEvent): Promise<void> {
  await db
    .insertInto('events')
    .values({
      id: event.id,
      job_id: event.jobId,
      position: event.position,
      type: event.type,
      data: JSON.stringify(event.data),
      created_at_ms: databaseNowMs,
    })
    .execute()
}

/** Events of a job, oldest first. */
export async function listEvents(db: Database, jobId: string, options: PageOptions): Promise<Page<EventRecord>> {
  let query = db.selectFrom('events').selectAll().where('job_id', '=', jobId)
  if (options.after !== undefined) {
    const cursor = await db
      .selectFrom('events')
      .select('position')
      .where('id', '=', options.after)
      .where('job_id', '=', jobId)
      .executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(options.after)
    query = query.where('position', '>', cursor.position)
  }
  const rows = await query
    .orderBy('position')
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toEvent)
}

/** Gradient steps done and announced so far. */
export interface JobProgress {
  readonly gradientSteps: number
  readonly numSequences: number | null
}

/** Progress of several jobs, by id; a job without events is absent. */
export async function readProgress(db: Database, jobIds: readonly string[]): Promise<ReadonlyMap<string, JobProgress>> {
  const progress = new Map<string, { gradientSteps: number; numSequences: number | null }>()
  if (jobIds.length === 0) return progress
  const counts = await db
    .selectFrom('events')
    .select((e) => ['job_id', e.fn.countAll<number>().as('count')])
    .where('job_id', 'in', jobIds)
    .where('type', '=', 'gradient_step')
    .groupBy('job_id')
    .execute()
  const starts = await db
    .selectFrom('events')
    .select(['job_id', 'data'])
    .where('job_id', 'in', jobIds)
    .where('type', '=', 'training_started')
    .orderBy('position')
    .execute()
  for (const row of starts) {
    const data = readObject(row.data, 'data of an event')
    const count = data['num_sequences']
    progress.set(row.job_id, { gradientSteps: 0, numSequences: typeof count === 'number' ? count : null })
  }
  for (const row of counts) {
    progress.set(row.job_id, {
      gradientSteps: Number(row.count),
      numSequences: progress.get(row.job_id)?.numSequences ?? null,
    })
  }
  return progress
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
