/**
 * Counters of use by entity, day, project and model. They only grow; a day is one of UTC by the database's clock.
 */
import { sql } from 'kysely'
import { type Database, databaseNowMs } from '../database.js'
import { dayBefore, greatest, least, spelled, today } from '../sql-words.js'

/** What is counted of answers. */
export interface UsageCounters {
  readonly requests: number
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly completionTokens: number
}

/** Whom and what counters belong to. */
export interface UsageKey {
  readonly entity: string
  readonly project: string
  /** A base model's name, or `entity/project/name`. */
  readonly model: string
}

/** A row of the report, by the names it is ordered by. */
export interface UsageRowKey extends Omit<UsageKey, 'entity'> {
  readonly day: string
}

/** Project of what names none. */
export const DEFAULT_USAGE_PROJECT = 'default'

/** Adds to today's counters. */
export async function addUsage(db: Database, key: UsageKey, counters: UsageCounters): Promise<void> {
  await db
    .insertInto('usage_days')
    .values({
      ...key,
      day: today,
      requests: counters.requests,
      prompt_tokens: counters.promptTokens,
      cached_tokens: counters.cachedTokens,
      completion_tokens: counters.completionTokens,
    })
    .onConflict((conflict) =>
      conflict.columns(['entity', 'day', 'project', 'model']).doUpdateSet((e) => ({
        requests: e('usage_days.requests', '+', e.ref('excluded.requests')),
        prompt_tokens: e('usage_days.prompt_tokens', '+', e.ref('excluded.prompt_tokens')),
        cached_tokens: e('usage_days.cached_tokens', '+', e.ref('excluded.cached_tokens')),
        completion_tokens: e('usage_days.completion_tokens', '+', e.ref('excluded.completion_tokens')),
      })),
    )
    .execute()
}

/**
 * Counts the time since a running job's last sign of life; call before its heartbeat is renewed, in the same transaction.
 *
 * @param mostMs what is counted at most: a machine that slept trained nothing meanwhile
 */
export async function addTrainingTime(db: Database, jobId: string, mostMs: number): Promise<void> {
  const elapsedMs = least(
    sql<number>`${databaseNowMs} - job.heartbeat_at_ms`,
    sql<number>`${sql.lit(Math.trunc(mostMs))}`,
  )
  await sql`insert into usage_days (entity, day, project, model, training_ms)
    select job.entity, ${today}, coalesce(job.usage_project, job.project),
      case when model.id is null then job.model_id else model.entity || '/' || model.project || '/' || model.name end,
      ${greatest(sql<number>`0`, elapsedMs)}
    from training_jobs as job left join models as model on model.id = job.model_id
    where job.id = ${jobId} and job.status = 'running' and job.heartbeat_at_ms is not null
    on conflict (entity, day, project, model) do update
      set training_ms = usage_days.training_ms + excluded.training_ms`.execute(db)
}

/** Counts time that a worker spent on a request of a training session, in the transaction of the request's end. */
export async function addSessionTime(db: Database, sessionId: string, timeMs: number): Promise<void> {
  // a value, not a part of the text: each text is compiled, and kept
  await sql`insert into usage_days (entity, day, project, model, training_ms)
    select session.entity, ${today}, session.project,
      case when model.id is null then session.base_model else model.entity || '/' || model.project || '/' || model.name end,
      cast(${Math.max(0, Math.round(timeMs))} as bigint)
    from training_sessions as session left join models as model on model.id = session.model_id
    where session.id = ${sessionId}
    on conflict (entity, day, project, model) do update
      set training_ms = usage_days.training_ms + excluded.training_ms`.execute(db)
}

export interface UsageFilter {
  readonly entity: string
  readonly from: string
  readonly to: string
  readonly project?: string | undefined
  readonly model?: string | undefined
  /** Rows from this one on. */
  readonly since?: UsageRowKey | undefined
  /** Rows in front of this one. */
  readonly before?: UsageRowKey | undefined
}

/** Rows as they are answered. */
export interface UsageRows extends UsageCounters {
  /** Rows of `GET /v1/usage` as JSON, with commas between them. */
  readonly json: string
  readonly trainingMs: number
}

/** What both reads look through: counters of the days `from` to `to`, both included, by day, project and model. */
function usageOf(db: Database, { entity, from, to, project, model, since, before }: UsageFilter) {
  let query = db.selectFrom('usage_days').where('entity', '=', entity)
  if (project !== undefined) query = query.where('project', '=', project)
  if (model !== undefined) query = query.where('model', '=', model)
  // one bound at each end and both of the same columns: beside another the index would not use it, and read on to its end
  const first = since ?? { day: from, project: '', model: '' }
  const end = before ?? { day: `${to}~`, project: '', model: '' }
  query = query
    .where(sql<boolean>`(day, project, model) >= (${first.day}, ${first.project}, ${first.model})`)
    .where(sql<boolean>`(day, project, model) < (${end.day}, ${end.project}, ${end.model})`)
  return query
}

/** The row behind `offset` others, if there are so many. */
export async function findUsageRow(db: Database, filter: UsageFilter, offset: number): Promise<UsageRowKey | null> {
  const row = await usageOf(db, filter)
    .select(['day', 'project', 'model'])
    .orderBy('day')
    .orderBy('project')
    .orderBy('model')
    .limit(1)
    .offset(offset)
    .executeTakeFirst()
  return row ?? null
}

const REPORTED = sql`'day', day, 'project', project, 'model', model, 'requests', requests,
  'prompt_tokens', prompt_tokens, 'cached_tokens', cached_tokens, 'completion_tokens', completion_tokens`

/** The rows of a report in its order, as the text of a JSON list. */
const rowsAsJson = spelled({
  sqlite: sql<string>`json_group_array(json_object(${REPORTED}, 'training_seconds', training_ms / 1000.0))`,
  postgres: sql<string>`coalesce(json_agg(json_build_object(${REPORTED}, 'training_seconds',
    training_ms / 1000.0::float8) order by day, project, model)::text, '[]')`,
})

/**
 * Rows and their sum. The database writes the JSON: it takes less of the event loop's time than objects that are mapped and written here.
 */
export async function readUsage(db: Database, filter: UsageFilter): Promise<UsageRows> {
  const ordered = usageOf(db, filter)
    .select(['day', 'project', 'model', 'requests', 'prompt_tokens', 'cached_tokens', 'completion_tokens'])
    .select('training_ms')
    .orderBy('day')
    .orderBy('project')
    .orderBy('model')
  const row = await db
    .selectFrom(ordered.as('ordered'))
    .select([
      rowsAsJson.as('json'),
      sql<number>`coalesce(sum(requests), 0)`.as('requests'),
      sql<number>`coalesce(sum(prompt_tokens), 0)`.as('promptTokens'),
      sql<number>`coalesce(sum(cached_tokens), 0)`.as('cachedTokens'),
      sql<number>`coalesce(sum(completion_tokens), 0)`.as('completionTokens'),
      sql<number>`coalesce(sum(training_ms), 0)`.as('trainingMs'),
    ])
    .executeTakeFirstOrThrow()
  return { ...row, json: row.json.slice(1, -1) }
}

/** `to`, or today by the database's clock, and 29 days before it. */
export async function defaultUsageDays(
  db: Database,
  to: string | undefined,
): Promise<{ readonly from: string; readonly to: string }> {
  const last = to ?? 'now'
  const { rows } = await sql<{ from: string; to: string }>`
    select ${dayBefore(last, 29)} as "from", ${dayBefore(last, 0)} as "to"`.execute(db)
  return rows[0] ?? { from: '', to: '' }
}
