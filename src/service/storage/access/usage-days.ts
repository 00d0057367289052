/**
 * Counters of use by entity, day, project and model. They only grow; a day is one of UTC by the database's clock.
 */
import { sql } from 'kysely'
import { type Database, databaseNowMs } from '../database.js'

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

export interface UsageRecord extends Omit<UsageKey, 'entity'>, UsageCounters {
  readonly day: string
  readonly trainingMs: number
}

/** Project of what names none. */
export const DEFAULT_USAGE_PROJECT = 'default'

const today = sql<string>`strftime('%Y-%m-%d', 'now')`

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
  await sql`insert into usage_days (entity, day, project, model, training_ms)
    select job.entity, ${today}, coalesce(job.usage_project, job.project),
      case when model.id is null then job.model_id else model.entity || '/' || model.project || '/' || model.name end,
      max(0, min(${databaseNowMs} - job.heartbeat_at_ms, ${Math.trunc(mostMs)}))
    from training_jobs as job left join models as model on model.id = job.model_id
    where job.id = ${jobId} and job.status = 'running' and job.heartbeat_at_ms is not null
    on conflict (entity, day, project, model) do update set training_ms = training_ms + excluded.training_ms`.execute(
    db,
  )
}

export interface UsageFilter {
  readonly entity: string
  readonly from: string
  readonly to: string
  readonly project?: string | undefined
  readonly model?: string | undefined
  /** Rows behind this one. */
  readonly after?: Pick<UsageRecord, 'day' | 'project' | 'model'> | undefined
  readonly limit: number
}

const COLUMNS = [
  'day',
  'project',
  'model',
  'requests',
  'prompt_tokens',
  'cached_tokens',
  'completion_tokens',
  'training_ms',
] as const

/** Counters of the days `from` to `to`, both included, by day, project and model. */
export async function listUsage(db: Database, filter: UsageFilter): Promise<readonly UsageRecord[]> {
  const { after } = filter
  let query = db
    .selectFrom('usage_days')
    .select(COLUMNS)
    .where('entity', '=', filter.entity)
    .where('day', '<=', filter.to)
  if (filter.project !== undefined) query = query.where('project', '=', filter.project)
  if (filter.model !== undefined) query = query.where('model', '=', filter.model)
  if (after === undefined) query = query.where('day', '>=', filter.from)
  else {
    // alone, for the index begins at one lower bound
    query = query.where(sql<boolean>`(day, project, model) > (${after.day}, ${after.project}, ${after.model})`)
  }
  const rows = await query.orderBy('day').orderBy('project').orderBy('model').limit(filter.limit).execute()
  return rows.map((row) => ({
    day: row.day,
    project: row.project,
    model: row.model,
    requests: row.requests,
    promptTokens: row.prompt_tokens,
    cachedTokens: row.cached_tokens,
    completionTokens: row.completion_tokens,
    trainingMs: row.training_ms,
  }))
}

/** Today and 29 days before it, by the database's clock. */
export async function defaultUsageDays(db: Database): Promise<{ readonly from: string; readonly to: string }> {
  const { rows } = await sql<{ from: string; to: string }>`
    select strftime('%Y-%m-%d', 'now', '-29 days') as "from", ${today} as "to"`.execute(db)
  return rows[0] ?? { from: '', to: '' }
}
