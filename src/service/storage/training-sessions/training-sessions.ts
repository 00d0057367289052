/**
 * Rows of training sessions and of their stored state.
 */

import type { ExpressionBuilder } from 'kysely'
import { type Database, databaseNowMs } from '../database.js'
import { type Page, toPage, unknownCursor } from '../paging.js'
import { storableText } from '../row-values.js'
import type { Schema } from '../schema.js'

/** A stored file. */
export interface StoredFile {
  readonly name: string
  readonly sha256: string
  readonly sizeBytes: number
}

export interface NewTrainingSession {
  /** `{client session}:train:{number}`. */
  readonly id: string
  readonly entity: string
  /** Of the model that its checkpoints go to. */
  readonly project: string
  readonly clientSessionId: string
  readonly baseModel: string
  readonly rank: number
  readonly alpha: number
  readonly seed: string | number
  readonly trainsMlp: boolean
  readonly trainsAttention: boolean
  readonly userMetadata: Readonly<Record<string, unknown>>
  /** The model that its checkpoints go to; null: one of its own is made with the first. */
  readonly modelId: string | null
}

export interface TrainingSessionRecord extends NewTrainingSession {
  /** Why it cannot go on; null while it can. */
  readonly error: string | null
  readonly attempt: number
  /** The server whose worker has it; null: nobody's, or there is one server. */
  readonly serverId: string | null
  /** The request that is carried out next. */
  readonly nextSeq: number
  /** The last request whose effect is in the stored state. */
  readonly stateSeq: number
  /** Updates made. */
  readonly stepCount: number
  readonly createdAtMs: number
  readonly usedAtMs: number
}

export async function insertTrainingSession(db: Database, session: NewTrainingSession): Promise<void> {
  await db
    .insertInto('training_sessions')
    .values({
      id: session.id,
      entity: session.entity,
      project: session.project,
      client_session_id: session.clientSessionId,
      base_model: session.baseModel,
      rank: session.rank,
      alpha: session.alpha,
      seed: JSON.stringify(session.seed),
      trains_mlp: session.trainsMlp ? 1 : 0,
      trains_attention: session.trainsAttention ? 1 : 0,
      user_metadata: JSON.stringify(session.userMetadata),
      error: null,
      model_id: session.modelId,
      created_at_ms: databaseNowMs,
      used_at_ms: databaseNowMs,
    })
    .execute()
}

export async function findTrainingSession(db: Database, id: string): Promise<TrainingSessionRecord | null> {
  const row = await db.selectFrom('training_sessions').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toTrainingSession(row)
}

/** Sessions of an entity or of one project of it, newest first, and how many there are. */
export async function listTrainingSessions(
  db: Database,
  owner: { readonly entity: string; readonly project: string | null; readonly clientSessionId?: string },
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly sessions: readonly TrainingSessionRecord[]; readonly total: number }> {
  let query = db.selectFrom('training_sessions').where('entity', '=', owner.entity)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  if (owner.clientSessionId !== undefined) query = query.where('client_session_id', '=', owner.clientSessionId)
  const rows = await query
    .selectAll()
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(page.limit)
    .offset(page.offset)
    .execute()
  const { total } = await query.select((e) => e.fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  return { sessions: rows.map(toTrainingSession), total: Number(total) }
}

/** A page of them, newest first. */
export async function pageTrainingSessions(
  db: Database,
  query: {
    readonly entity: string
    readonly project: string | undefined
    readonly after: string | undefined
    readonly limit: number
  },
): Promise<Page<TrainingSessionRecord>> {
  let rows = db.selectFrom('training_sessions').where('entity', '=', query.entity)
  if (query.project !== undefined) rows = rows.where('project', '=', query.project)
  if (query.after !== undefined) {
    const last = await rows.select(['id', 'created_at_ms']).where('id', '=', query.after).executeTakeFirst()
    if (last === undefined) throw unknownCursor(query.after)
    // ids end with a number, which is not padded: as texts they are in no order of time
    rows = rows.where((e) =>
      e.or([
        e('created_at_ms', '<', last.created_at_ms),
        e.and([e('created_at_ms', '=', last.created_at_ms), e('id', '<', last.id)]),
      ]),
    )
  }
  const found = await rows
    .selectAll()
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(query.limit + 1)
    .execute()
  return toPage(found, query.limit, toTrainingSession)
}

/** Sessions with a request that could be carried out now. */
export async function listReadySessions(db: Database): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('training_sessions as s')
    .innerJoin('session_requests as r', (join) =>
      join.onRef('r.session_id', '=', 's.id').onRef('r.seq', '=', 's.next_seq'),
    )
    .select('s.id')
    .where('r.status', '=', 'waiting')
    .where('s.error', 'is', null)
    .orderBy('r.created_at_ms')
    .execute()
  return rows.map(({ id }) => id)
}

/** A session that this server may take: it is nobody's, or of a server that is gone. */
const isFreeFor = (serverId: string) => (e: ExpressionBuilder<Schema, 'training_sessions'>) =>
  e.or([
    e('server_id', 'is', null),
    e('server_id', '=', serverId),
    e.not(
      e.exists(
        e
          .selectFrom('servers')
          .select('servers.id')
          .whereRef('servers.id', '=', 'training_sessions.server_id')
          .where('lease_expires_at_ms', '>', databaseNowMs),
      ),
    ),
  ])

/**
 * A new worker takes the session; call inside a transaction.
 *
 * @param serverId of several servers the one whose worker it is; null: there is one
 * @returns its attempt; null if another server has it
 */
export async function takeSession(db: Database, id: string, serverId: string | null): Promise<number | null> {
  const result = await db
    .updateTable('training_sessions')
    .set((e) => ({ attempt: e('attempt', '+', 1), server_id: serverId }))
    .where('id', '=', id)
    .$if(serverId !== null, (query) => query.where(isFreeFor(serverId ?? '')))
    .executeTakeFirst()
  return result.numUpdatedRows > 0n ? ((await findTrainingSession(db, id))?.attempt ?? null) : null
}

/** Its worker is gone: any server may take it, if none has meanwhile. */
export async function giveSessionBack(db: Database, id: string, attempt: number): Promise<void> {
  await db
    .updateTable('training_sessions')
    .set({ server_id: null })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .execute()
}

/** What a server that is gone had is nobody's. */
export async function giveSessionsBack(db: Database, serverId: string): Promise<void> {
  await db.updateTable('training_sessions').set({ server_id: null }).where('server_id', '=', serverId).execute()
}

/** Of these, those that another living server has. @param options.countsSilent also those of servers that seem gone. Default false */
export async function listHeldElsewhere(
  db: Database,
  ids: readonly string[],
  serverId: string,
  { countsSilent = false }: { readonly countsSilent?: boolean } = {},
): Promise<readonly string[]> {
  if (ids.length === 0) return []
  const rows = await db
    .selectFrom('training_sessions')
    .select('id')
    .where('id', 'in', ids)
    .where((e) =>
      countsSilent
        ? e.and([e('server_id', 'is not', null), e('server_id', '!=', serverId)])
        : e.not(isFreeFor(serverId)(e)),
    )
    .execute()
  return rows.map(({ id }) => id)
}

/**
 * The request before `nextSeq` is done.
 *
 * @param attempt the worker that did it; without, whoever holds the session
 * @returns whether this worker holds the session; else nothing was changed
 */
export async function advanceSession(
  db: Database,
  id: string,
  { nextSeq, isStep, attempt }: { readonly nextSeq: number; readonly isStep: boolean; readonly attempt?: number },
): Promise<boolean> {
  const result = await db
    .updateTable('training_sessions')
    .set((e) => ({
      next_seq: nextSeq,
      used_at_ms: databaseNowMs,
      ...(isStep ? { step_count: e('step_count', '+', 1) } : {}),
    }))
    .where('id', '=', id)
    .$if(attempt !== undefined, (query) => query.where('attempt', '=', attempt ?? 0))
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function failTrainingSession(db: Database, id: string, error: string): Promise<void> {
  await db
    .updateTable('training_sessions')
    .set({ error: storableText(error) })
    .where('id', '=', id)
    .execute()
}

export async function setSessionModel(db: Database, id: string, modelId: string): Promise<void> {
  await db.updateTable('training_sessions').set({ model_id: modelId }).where('id', '=', id).execute()
}

/** @returns whether there was one */
export async function deleteTrainingSession(db: Database, id: string): Promise<boolean> {
  const result = await db.deleteFrom('training_sessions').where('id', '=', id).executeTakeFirst()
  return result.numDeletedRows > 0n
}

export async function listSessionFiles(db: Database, id: string): Promise<readonly StoredFile[]> {
  const rows = await db.selectFrom('session_files').selectAll().where('session_id', '=', id).orderBy('name').execute()
  return rows.map(toFile)
}

/** The files take the place of those before; what they hold includes every request up to `stateSeq`. */
export async function putSessionState(
  db: Database,
  id: string,
  { files, stateSeq }: { readonly files: readonly StoredFile[]; readonly stateSeq: number },
): Promise<void> {
  await db.deleteFrom('session_files').where('session_id', '=', id).execute()
  for (const { name, sha256, sizeBytes } of files) {
    await db.insertInto('session_files').values({ session_id: id, name, sha256, size_bytes: sizeBytes }).execute()
  }
  await db.updateTable('training_sessions').set({ state_seq: stateSeq }).where('id', '=', id).execute()
}

/** A row of a stored file. */
export function toFile(row: { name: string; sha256: string; size_bytes: number }): StoredFile {
  return { name: row.name, sha256: row.sha256, sizeBytes: Number(row.size_bytes) }
}

function toTrainingSession(row: {
  id: string
  entity: string
  project: string
  client_session_id: string
  base_model: string
  rank: number
  alpha: number
  seed: string
  trains_mlp: number
  trains_attention: number
  user_metadata: string
  error: string | null
  attempt: number
  server_id: string | null
  next_seq: number
  state_seq: number
  step_count: number
  model_id: string | null
  created_at_ms: number
  used_at_ms: number
}): TrainingSessionRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    clientSessionId: row.client_session_id,
    baseModel: row.base_model,
    rank: row.rank,
    alpha: row.alpha,
    seed: JSON.parse(row.seed) as string | number,
    trainsMlp: row.trains_mlp === 1,
    trainsAttention: row.trains_attention === 1,
    userMetadata: JSON.parse(row.user_metadata) as Record<string, unknown>,
    error: row.error,
    attempt: row.attempt,
    serverId: row.server_id,
    nextSeq: row.next_seq,
    stateSeq: row.state_seq,
    stepCount: row.step_count,
    modelId: row.model_id,
    createdAtMs: row.created_at_ms,
    usedAtMs: row.used_at_ms,
  }
}
