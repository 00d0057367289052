/**
 * What the recorded calls of a route come to, counted by the database.
 */
import { sql } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { gatewayTables } from './tables.js'

export interface CallSummary {
  readonly calls: number
  readonly bytes: number
  readonly firstAtMs: number | null
  readonly lastAtMs: number | null
  readonly outcomes: Readonly<Record<string, number>>
  readonly statuses: Readonly<Record<string, number>>
  readonly content: Readonly<Record<string, number>>
  readonly durations: Quantiles | null
  readonly firstBytes: Quantiles | null
  readonly models: readonly ModelSum[]
  readonly alike: Alike
}
interface Quantiles {
  readonly p50: number
  readonly p95: number
}
interface ModelSum {
  readonly model: string | null
  readonly calls: number
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
}
/** Of calls with content: how many different ones. */
interface Alike {
  readonly of: number
  readonly shapes: number
  readonly largestShape: number
  readonly prompts: number
  readonly answers: number
}

/** The newest calls whose times are looked at. */
const MOST_TIMED = 5000

export async function summarizeCalls(db: Database, routeId: string): Promise<CallSummary> {
  const calls = () => gatewayTables(db).selectFrom('gateway_calls').where('route_id', '=', routeId)
  const count = sql<number>`count(*)`
  const all = await calls()
    .select((e) => [
      count.as('calls'),
      e.fn.sum<number | string | null>('size_bytes').as('bytes'),
      e.fn.min<number | string | null>('started_at_ms').as('first'),
      e.fn.max<number | string | null>('started_at_ms').as('last'),
    ])
    .executeTakeFirstOrThrow()
  const countsOf = async (column: 'outcome' | 'status' | 'content') => {
    const rows = await calls()
      .select([column, count.as('count')])
      .groupBy(column)
      .execute()
    return Object.fromEntries(rows.map((row) => [String(row[column]), Number(row.count)]))
  }
  const models = await calls()
    .select((e) => [
      'model',
      count.as('calls'),
      e.fn.sum<number | string | null>('input_tokens').as('input'),
      e.fn.sum<number | string | null>('cached_tokens').as('cached'),
      e.fn.sum<number | string | null>('output_tokens').as('output'),
    ])
    .groupBy('model')
    .orderBy('calls', 'desc')
    .execute()
  const timed = await calls()
    .select(['duration_ms', 'first_byte_ms'])
    .where('outcome', '=', 'complete')
    .orderBy('id', 'desc')
    .limit(MOST_TIMED)
    .execute()
  return {
    calls: Number(all.calls),
    bytes: Number(all.bytes ?? 0),
    firstAtMs: all.first === null ? null : Number(all.first),
    lastAtMs: all.last === null ? null : Number(all.last),
    outcomes: await countsOf('outcome'),
    statuses: await countsOf('status'),
    content: await countsOf('content'),
    durations: quantilesOf(timed.map((row) => row.duration_ms)),
    firstBytes: quantilesOf(timed.flatMap((row) => row.first_byte_ms ?? [])),
    models: models.map((row) => ({
      model: row.model,
      calls: Number(row.calls),
      inputTokens: Number(row.input ?? 0),
      cachedTokens: Number(row.cached ?? 0),
      outputTokens: Number(row.output ?? 0),
    })),
    alike: await alikeOf(db, routeId),
  }
}

async function alikeOf(db: Database, routeId: string): Promise<Alike> {
  const calls = () =>
    gatewayTables(db).selectFrom('gateway_calls').where('route_id', '=', routeId).where('content', '=', 'kept')
  const distinct = (column: 'shape_digest' | 'prompt_digest' | 'answer_digest') =>
    sql<number>`count(distinct ${sql.ref(column)})`
  const all = await calls()
    .select([
      sql<number>`count(*)`.as('calls'),
      distinct('shape_digest').as('shapes'),
      distinct('prompt_digest').as('prompts'),
      distinct('answer_digest').as('answers'),
    ])
    .executeTakeFirstOrThrow()
  const largest = await calls()
    .select(sql<number>`count(*)`.as('count'))
    .groupBy('shape_digest')
    .orderBy('count', 'desc')
    .limit(1)
    .executeTakeFirst()
  return {
    of: Number(all.calls),
    shapes: Number(all.shapes),
    largestShape: Number(largest?.count ?? 0),
    prompts: Number(all.prompts),
    answers: Number(all.answers),
  }
}

/** By the nearest rank. */
function quantilesOf(values: readonly number[]): Quantiles | null {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number): number => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
  return sorted.length === 0 ? null : { p50: at(0.5), p95: at(0.95) }
}
