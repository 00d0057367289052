/**
 * Rows of recorded calls: each is written once, whole, in a transaction with the counts of its route.
 */
import type { Selectable } from 'kysely'
import { type Database, type DatabaseHandle, databaseNowMs } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { readOneOf } from '#service/storage/row-values.js'
import { CONTENTS, FORMS, OUTCOMES, type RecordedCall } from '../route.js'
import { listAllRoutes } from './routes.js'
import { type GatewayCallsTable, gatewayTables } from './tables.js'

/** What was passed on, and of it what was lost for the record. */
interface RouteCounts {
  readonly calls: number
  readonly lost: number
}

/** Calls of routes that are gone by now are left out. */
export async function insertCalls(db: Database, calls: readonly RecordedCall[]): Promise<void> {
  if (calls.length === 0) return
  const tables = gatewayTables(db)
  const ids = [...new Set(calls.map(({ routeId }) => routeId))]
  const rows = await tables.selectFrom('gateway_routes').select('id').where('id', 'in', ids).execute()
  const there = new Set(rows.map(({ id }) => id))
  for (const call of calls.filter(({ routeId }) => there.has(routeId))) {
    await tables.insertInto('gateway_calls').values(toRow(call)).execute()
  }
}

export async function addCounts(db: Database, routeId: string, { calls, lost }: RouteCounts): Promise<void> {
  await gatewayTables(db)
    .updateTable('gateway_routes')
    .set((e) => ({ calls: e('calls', '+', calls), lost_calls: e('lost_calls', '+', lost) }))
    .where('id', '=', routeId)
    .execute()
}

/** Oldest first. @param after the id of the last one that was read */
export async function readCalls(
  db: Database,
  routeId: string,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly RecordedCall[]> {
  let query = gatewayTables(db).selectFrom('gateway_calls').selectAll().where('route_id', '=', routeId)
  if (after !== null) query = query.where('id', '>', after)
  return (await query.orderBy('id').limit(limit).execute()).map(toCall)
}

/** Deletes of every route what its rules say. */
export async function trimAll(db: DatabaseHandle): Promise<void> {
  for (const { id, spec } of await listAllRoutes(db)) {
    await inTransaction(db, (transaction) => trimCalls(transaction, id, spec))
  }
}

const DAY_MS = 86_400_000

/** Deletes what is older than the route keeps calls, and its oldest ones beyond its size. */
async function trimCalls(
  db: Database,
  routeId: string,
  { retentionDays, maxBytes }: { readonly retentionDays: number; readonly maxBytes: number },
): Promise<void> {
  const tables = gatewayTables(db)
  await tables
    .deleteFrom('gateway_calls')
    .where('route_id', '=', routeId)
    .where((e) => e('started_at_ms', '<', e(databaseNowMs, '-', Math.round(retentionDays * DAY_MS))))
    .execute()
  let over = (await sizeOf(db, routeId)) - maxBytes
  while (over > 0) {
    const query = tables.selectFrom('gateway_calls').select(['id', 'size_bytes']).where('route_id', '=', routeId)
    const oldest = await query.orderBy('id').limit(200).execute()
    const going: string[] = []
    for (const { id, size_bytes: size } of oldest) {
      if (over <= 0) break
      going.push(id)
      over -= Number(size)
    }
    if (going.length === 0) break
    await tables.deleteFrom('gateway_calls').where('id', 'in', going).execute()
  }
}

async function sizeOf(db: Database, routeId: string): Promise<number> {
  const row = await gatewayTables(db)
    .selectFrom('gateway_calls')
    .select((e) => e.fn.sum<number | string | null>('size_bytes').as('size'))
    .where('route_id', '=', routeId)
    .executeTakeFirst()
  return Number(row?.size ?? 0)
}

/** What a row takes beside its texts. */
const ROW_BYTES = 400

function toRow(call: RecordedCall): GatewayCallsTable {
  const { id, form, model, status, outcome, content, request, answer } = call
  return {
    ...{ id, form, model, status, outcome, content, request, answer },
    route_id: call.routeId,
    is_stream: call.isStream ? 1 : 0,
    first_byte_ms: call.firstByteMs,
    duration_ms: call.durationMs,
    input_tokens: call.inputTokens,
    cached_tokens: call.cachedTokens,
    output_tokens: call.outputTokens,
    shape_digest: call.shapeDigest,
    prompt_digest: call.promptDigest,
    answer_digest: call.answerDigest,
    size_bytes: ROW_BYTES + Buffer.byteLength(request ?? '') + Buffer.byteLength(answer ?? ''),
    started_at_ms: call.startedAtMs,
  }
}

function toCall(row: Selectable<GatewayCallsTable>): RecordedCall {
  const { id, model, status, request, answer } = row
  const numberOf = (value: number | string | null): number | null => (value === null ? null : Number(value))
  return {
    ...{ id, model, status, request, answer },
    routeId: row.route_id,
    form: readOneOf(FORMS, row.form, 'form of a recorded call'),
    outcome: readOneOf(OUTCOMES, row.outcome, 'outcome of a recorded call'),
    content: readOneOf(CONTENTS, row.content, 'content of a recorded call'),
    isStream: row.is_stream === 1,
    firstByteMs: row.first_byte_ms,
    durationMs: row.duration_ms,
    inputTokens: numberOf(row.input_tokens),
    cachedTokens: numberOf(row.cached_tokens),
    outputTokens: numberOf(row.output_tokens),
    shapeDigest: row.shape_digest,
    promptDigest: row.prompt_digest,
    answerDigest: row.answer_digest,
    startedAtMs: Number(row.started_at_ms),
  }
}
