/**
 * Rows of the requests of training sessions: the journal by which a session that lost its worker is brought back, and the results
 * until somebody has read them.
 */
import { sql } from 'kysely'
import { maxOf } from '#base/util/lists.js'
import { type Database, databaseNowMs } from '../database.js'
import { readOneOf, storableText } from '../row-values.js'

export const REQUEST_KINDS = [
  'create',
  'forward_backward',
  'forward',
  'optim_step',
  'load_weights',
  'save_weights',
  'save_weights_for_sampler',
  'save_weights_external',
] as const
export type RequestKind = (typeof REQUEST_KINDS)[number]

/** Those that change what a session holds; what came after the last stored state is carried out again by a new worker. */
const CHANGING: readonly RequestKind[] = ['forward_backward', 'optim_step', 'load_weights']

/** Whether a request of this kind, done, changes what its session holds. */
export function changesSession({ kind }: { readonly kind: RequestKind }): boolean {
  return CHANGING.includes(kind)
}

const STATUSES = ['waiting', 'done', 'failed'] as const

export interface NewSessionRequest {
  readonly sessionId: string
  readonly seq: number
  readonly kind: RequestKind
  readonly detail: Readonly<Record<string, unknown>>
  readonly body: Uint8Array | null
}

/** How a request ended. */
export type RequestEnd =
  | { readonly result: Readonly<Record<string, unknown>> }
  | { readonly output: Uint8Array }
  | { readonly error: string; readonly isUserError: boolean }

export interface SessionRequestRecord {
  readonly sessionId: string
  readonly seq: number
  readonly kind: RequestKind
  readonly detail: Readonly<Record<string, unknown>>
  readonly status: (typeof STATUSES)[number]
  /** Null while it waits. */
  readonly end: RequestEnd | null
  readonly losses: number
}

/** Stores a request, in waiting or ended already. @returns false if there is one of the same number: then nothing was changed */
export async function insertSessionRequest(
  db: Database,
  request: NewSessionRequest,
  end: RequestEnd | null = null,
): Promise<boolean> {
  const result = await db
    .insertInto('session_requests')
    .values({
      session_id: request.sessionId,
      seq: request.seq,
      kind: request.kind,
      detail: JSON.stringify(request.detail),
      body: end === null ? request.body : null,
      created_at_ms: databaseNowMs,
      ...(end === null
        ? { status: 'waiting', result: null, output: null, error: null, ended_at_ms: null }
        : endColumns(end)),
    })
    .onConflict((conflict) => conflict.columns(['session_id', 'seq']).doNothing())
    .executeTakeFirst()
  return Number(result.numInsertedOrUpdatedRows ?? 0) > 0
}

function endColumns(end: RequestEnd) {
  return {
    status: 'error' in end ? 'failed' : 'done',
    result: 'result' in end ? JSON.stringify(end.result) : null,
    output: 'output' in end ? end.output : null,
    error: 'error' in end ? storableText(end.error) : null,
    is_user_error: 'error' in end && end.isUserError ? 1 : 0,
    ended_at_ms: databaseNowMs,
  }
}

const META = [
  'session_id',
  'seq',
  'kind',
  'detail',
  'status',
  'result',
  'output',
  'error',
  'is_user_error',
  'losses',
] as const

export async function findSessionRequest(
  db: Database,
  sessionId: string,
  seq: number,
): Promise<SessionRequestRecord | null> {
  const row = await db
    .selectFrom('session_requests')
    .select(META)
    .where('session_id', '=', sessionId)
    .where('seq', '=', seq)
    .executeTakeFirst()
  return row === undefined ? null : toRequest(row)
}

/** A request whose turn has come, with its rows, and the one behind it. */
export interface DueRequest {
  readonly request: SessionRequestRecord
  readonly body: Uint8Array | null
  readonly next: SessionRequestRecord | null
}

/** Request `seq`, once it has come. */
export async function findDueRequest(db: Database, sessionId: string, seq: number): Promise<DueRequest | null> {
  const rows = await db
    .selectFrom('session_requests')
    .select(META)
    .select(sql<Uint8Array | null>`case when seq = ${seq} then body end`.as('body'))
    .where('session_id', '=', sessionId)
    .where('seq', '>=', seq)
    .where('seq', '<=', seq + 1)
    .orderBy('seq')
    .execute()
  const [first, second] = rows
  if (first?.seq !== seq) return null
  return { request: toRequest(first), body: first.body, next: second === undefined ? null : toRequest(second) }
}

/** A request and whose it is; a session without this request has null. */
export async function findOwnedRequest(
  db: Database,
  sessionId: string,
  seq: number,
): Promise<{
  readonly entity: string
  readonly project: string
  readonly nextSeq: number
  readonly end: RequestEnd | null
  readonly isKnown: boolean
} | null> {
  const row = await db
    .selectFrom('training_sessions as s')
    .leftJoin('session_requests as r', (join) => join.onRef('r.session_id', '=', 's.id').on('r.seq', '=', seq))
    .select(['s.entity', 's.project', 's.next_seq', 'r.status', 'r.result', 'r.output', 'r.error', 'r.is_user_error'])
    .where('s.id', '=', sessionId)
    .executeTakeFirst()
  if (row === undefined) return null
  const { entity, project, next_seq: nextSeq, status } = row
  const isEnded = status !== null && status !== 'waiting'
  const end = isEnded ? endOf({ ...row, is_user_error: row.is_user_error ?? 0 }) : null
  return { entity, project, nextSeq, end, isKnown: status !== null }
}

/** Requests that changed the session after its stored state, in order. */
export async function listChangesSince(
  db: Database,
  sessionId: string,
  stateSeq: number,
): Promise<readonly SessionRequestRecord[]> {
  const rows = await db
    .selectFrom('session_requests')
    .select(META)
    .where('session_id', '=', sessionId)
    .where('seq', '>', stateSeq)
    .where('status', '=', 'done')
    .where('kind', 'in', CHANGING)
    .orderBy('seq')
    .execute()
  return rows.map(toRequest)
}

export async function readRequestBody(db: Database, sessionId: string, seq: number): Promise<Uint8Array | null> {
  const row = await db
    .selectFrom('session_requests')
    .select('body')
    .where('session_id', '=', sessionId)
    .where('seq', '=', seq)
    .executeTakeFirst()
  return row?.body ?? null
}

export async function countWaitingRequests(db: Database, sessionId: string): Promise<number> {
  const { count } = await db
    .selectFrom('session_requests')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('session_id', '=', sessionId)
    .where('status', '=', 'waiting')
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Ends a request that waits. Its rows stay for a new worker only if it changed the session. @returns whether it waited */
export async function endSessionRequest(
  db: Database,
  request: Pick<SessionRequestRecord, 'sessionId' | 'seq' | 'kind'>,
  end: RequestEnd,
): Promise<boolean> {
  const { sessionId, seq } = request
  const isKept = changesSession(request) && !('error' in end)
  const result = await db
    .updateTable('session_requests')
    .set({ ...endColumns(end), ...(isKept ? {} : { body: null }) })
    .where('session_id', '=', sessionId)
    .where('seq', '=', seq)
    .where('status', '=', 'waiting')
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** A worker ended while it carried the request out. @returns how many have */
export async function noteLoss(db: Database, sessionId: string, seq: number): Promise<number> {
  await db
    .updateTable('session_requests')
    .set((e) => ({ losses: e('losses', '+', 1) }))
    .where('session_id', '=', sessionId)
    .where('seq', '=', seq)
    .execute()
  return (await findSessionRequest(db, sessionId, seq))?.losses ?? 0
}

/** Fails everything that waits. @returns their numbers */
export async function failWaitingRequests(
  db: Database,
  sessionId: string,
  error: string,
  isUserError = false,
): Promise<readonly number[]> {
  const rows = await db
    .updateTable('session_requests')
    .set({ ...endColumns({ error, isUserError }), body: null })
    .where('session_id', '=', sessionId)
    .where('status', '=', 'waiting')
    .returning('seq')
    .execute()
  return rows.map(({ seq }) => seq)
}

/** The number at which a session stands because that request has not come, and for how long a later one has been waiting. */
export interface RequestGap {
  readonly missing: number
  readonly waitedMs: number
}

/** @returns `none`: nothing waits behind a request that has not come; null: nothing waits at all */
export async function findRequestGap(db: Database, sessionId: string): Promise<RequestGap | 'none' | null> {
  const row = await db
    .selectFrom('training_sessions as s')
    .innerJoin('session_requests as r', 'r.session_id', 's.id')
    .leftJoin('session_requests as due', (join) =>
      join.onRef('due.session_id', '=', 's.id').onRef('due.seq', '=', 's.next_seq'),
    )
    .select((e) => [
      's.next_seq',
      e.fn.max('due.seq').as('due'),
      e.fn.min('r.created_at_ms').as('since_ms'),
      databaseNowMs.as('now_ms'),
    ])
    .where('s.id', '=', sessionId)
    .where('s.error', 'is', null)
    .where('r.status', '=', 'waiting')
    .groupBy('s.next_seq')
    .executeTakeFirst()
  if (row === undefined) return null
  if (row.due !== null) return 'none'
  return { missing: row.next_seq, waitedMs: Number(row.now_ms) - Number(row.since_ms) }
}

/** Sessions in which something waits, whether or not it can be carried out. */
export async function listWaitingSessions(db: Database): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('session_requests')
    .select('session_id')
    .distinct()
    .where('status', '=', 'waiting')
    .execute()
  return rows.map(({ session_id: id }) => id)
}

/**
 * A request has not come for so long that those behind it fail, and it with them, should it still come; the session goes on behind
 * them. Call inside a transaction.
 *
 * @returns the numbers of those that failed, and the next; null: no gap is that old
 */
export async function endRequestGap(
  db: Database,
  sessionId: string,
  waitMs: number,
): Promise<{ readonly failed: readonly number[]; readonly nextSeq: number } | null> {
  const gap = await findRequestGap(db, sessionId)
  if (gap === null || gap === 'none' || gap.waitedMs < waitMs) return null
  const { missing } = gap
  const error =
    `request ${missing} of the training run has not come, and those behind it waited ${Math.round(waitMs / 1000)} s for it; ` +
    'what was done before it stays: go on with new requests'
  const failed = await failWaitingRequests(db, sessionId, error, true)
  const nextSeq = maxOf(failed) + 1
  for (let seq = missing; seq < nextSeq; seq++) {
    await insertSessionRequest(
      db,
      { sessionId, seq, kind: 'forward', detail: {}, body: null },
      { error, isUserError: true },
    )
  }
  await db.updateTable('training_sessions').set({ next_seq: nextSeq }).where('id', '=', sessionId).execute()
  return { failed, nextSeq }
}

/** Rows up to `seq` are in the stored state; results that nobody can be waiting for any more go too. */
export async function forgetBodies(
  db: Database,
  sessionId: string,
  { seq, resultMs }: { readonly seq: number; readonly resultMs: number },
): Promise<void> {
  await db
    .updateTable('session_requests')
    .set({ body: null })
    .where('session_id', '=', sessionId)
    .where('seq', '<=', seq)
    .where('body', 'is not', null)
    .execute()
  await db
    .deleteFrom('session_requests')
    .where('session_id', '=', sessionId)
    .where('seq', '>', 0)
    .where('seq', '<=', seq)
    .where((e) => e('ended_at_ms', '<', e(databaseNowMs, '-', resultMs)))
    .execute()
}

function toRequest(row: {
  session_id: string
  seq: number
  kind: string
  detail: string
  status: string
  result: string | null
  output: Uint8Array | null
  error: string | null
  is_user_error: number
  losses: number
}): SessionRequestRecord {
  const status = readOneOf(STATUSES, row.status, 'status of a request')
  return {
    sessionId: row.session_id,
    seq: row.seq,
    kind: readOneOf(REQUEST_KINDS, row.kind, 'kind of a request'),
    detail: JSON.parse(row.detail) as Record<string, unknown>,
    status,
    end: status === 'waiting' ? null : endOf(row),
    losses: row.losses,
  }
}

function endOf(row: {
  result: string | null
  output: Uint8Array | null
  error: string | null
  is_user_error: number
}): RequestEnd {
  if (row.error !== null) return { error: row.error, isUserError: row.is_user_error === 1 }
  if (row.output !== null) return { output: row.output }
  return { result: JSON.parse(row.result ?? '{}') as Record<string, unknown> }
}
