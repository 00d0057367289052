/**
 * Counters of use by API key and day of UTC. Training time has no key: a job is counted for its model and project.
 */
import { sql } from 'kysely'
import type { Database } from '../database.js'
import { today } from '../sql-words.js'
import type { UsageCounters } from './usage-days.js'

/** What a key asked for in some days. */
export interface KeyUsage extends UsageCounters {
  readonly keyId: string
  /** Null for a key that was revoked. */
  readonly name: string | null
  readonly keyPrefix: string | null
  readonly project: string | null
}

/** Adds to today's counters. */
export async function addKeyUsage(
  db: Database,
  { entity, keyId }: { readonly entity: string; readonly keyId: string },
  counters: UsageCounters,
): Promise<void> {
  await db
    .insertInto('usage_key_days')
    .values({
      entity,
      day: today,
      key_id: keyId,
      requests: counters.requests,
      prompt_tokens: counters.promptTokens,
      cached_tokens: counters.cachedTokens,
      completion_tokens: counters.completionTokens,
    })
    .onConflict((conflict) =>
      conflict.columns(['entity', 'day', 'key_id']).doUpdateSet((e) => ({
        requests: e('usage_key_days.requests', '+', e.ref('excluded.requests')),
        prompt_tokens: e('usage_key_days.prompt_tokens', '+', e.ref('excluded.prompt_tokens')),
        cached_tokens: e('usage_key_days.cached_tokens', '+', e.ref('excluded.cached_tokens')),
        completion_tokens: e('usage_key_days.completion_tokens', '+', e.ref('excluded.completion_tokens')),
      })),
    )
    .execute()
}

/**
 * What the keys of an owner asked for in the days `from` to `to`, both included, the one that asked most often first.
 *
 * @param owner.project keys of this project alone, and none that were revoked: of those nobody knows the project
 */
export async function readKeyUsage(
  db: Database,
  owner: { readonly entity: string; readonly project: string | null },
  { from, to, limit }: { readonly from: string; readonly to: string; readonly limit: number },
): Promise<readonly KeyUsage[]> {
  const sum = (column: string) => sql<number>`coalesce(sum(${sql.ref(`used.${column}`)}), 0)`
  let query = db
    .selectFrom('usage_key_days as used')
    .leftJoin('api_keys as key', 'key.id', 'used.key_id')
    .where('used.entity', '=', owner.entity)
    .where('used.day', '>=', from)
    .where('used.day', '<=', to)
  if (owner.project !== null) query = query.where('key.project', '=', owner.project)
  const rows = await query
    .groupBy(['used.key_id', 'key.name', 'key.key_prefix', 'key.project'])
    .select(['used.key_id', 'key.name', 'key.key_prefix', 'key.project'])
    .select([
      sum('requests').as('requests'),
      sum('prompt_tokens').as('prompt_tokens'),
      sum('cached_tokens').as('cached_tokens'),
      sum('completion_tokens').as('completion_tokens'),
    ])
    .orderBy(sum('requests'), 'desc')
    .orderBy('used.key_id')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    keyId: row.key_id,
    name: row.name,
    keyPrefix: row.key_prefix,
    project: row.project,
    requests: Number(row.requests),
    promptTokens: Number(row.prompt_tokens),
    cachedTokens: Number(row.cached_tokens),
    completionTokens: Number(row.completion_tokens),
  }))
}
