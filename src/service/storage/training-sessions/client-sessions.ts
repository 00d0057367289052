/**
 * Rows of what clients of training loops open first, and of what they sample from.
 */
import { type Database, databaseNowMs } from '../database.js'

export interface ClientSessionRecord {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly tags: readonly string[]
  readonly userMetadata: Readonly<Record<string, unknown>>
  readonly displayName: string | null
  readonly createdAtMs: number
  readonly seenAtMs: number
  readonly endedAtMs: number | null
}

export interface NewClientSession {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly keyId: string
  readonly tags: readonly string[]
  readonly userMetadata: Readonly<Record<string, unknown>>
  readonly sdkVersion: string
  readonly displayName: string | null
}

export async function insertClientSession(db: Database, session: NewClientSession): Promise<void> {
  await db
    .insertInto('client_sessions')
    .values({
      id: session.id,
      entity: session.entity,
      project: session.project,
      key_id: session.keyId,
      tags: JSON.stringify(session.tags),
      user_metadata: JSON.stringify(session.userMetadata),
      sdk_version: session.sdkVersion,
      display_name: session.displayName,
      created_at_ms: databaseNowMs,
      seen_at_ms: databaseNowMs,
      ended_at_ms: null,
    })
    .execute()
}

export async function findClientSession(db: Database, id: string): Promise<ClientSessionRecord | null> {
  const row = await db.selectFrom('client_sessions').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toClientSession(row)
}

/** Sessions of an entity or of one project of it, newest first, and how many there are. */
export async function listClientSessions(
  db: Database,
  owner: { readonly entity: string; readonly project: string | null },
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly sessions: readonly ClientSessionRecord[]; readonly total: number }> {
  let query = db.selectFrom('client_sessions').where('entity', '=', owner.entity)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  const rows = await query.selectAll().orderBy('id', 'desc').limit(page.limit).offset(page.offset).execute()
  const { total } = await query.select((e) => e.fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  return { sessions: rows.map(toClientSession), total: Number(total) }
}

export async function touchClientSession(db: Database, id: string): Promise<void> {
  await db.updateTable('client_sessions').set({ seen_at_ms: databaseNowMs }).where('id', '=', id).execute()
}

export async function endClientSession(db: Database, id: string): Promise<void> {
  await db
    .updateTable('client_sessions')
    .set({ ended_at_ms: databaseNowMs })
    .where('id', '=', id)
    .where('ended_at_ms', 'is', null)
    .execute()
}

export interface SamplerRecord {
  readonly id: string
  readonly entity: string
  readonly clientSessionId: string
  readonly baseModel: string
  /** Null: the base model. */
  readonly weightsId: string | null
  readonly modelPath: string | null
}

/** A repeated insert changes nothing. */
export async function insertSampler(db: Database, sampler: SamplerRecord): Promise<void> {
  await db
    .insertInto('samplers')
    .values({
      id: sampler.id,
      entity: sampler.entity,
      client_session_id: sampler.clientSessionId,
      base_model: sampler.baseModel,
      weights_id: sampler.weightsId,
      model_path: sampler.modelPath,
      created_at_ms: databaseNowMs,
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
}

export async function findSampler(db: Database, id: string): Promise<SamplerRecord | null> {
  const row = await db.selectFrom('samplers').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toSampler(row)
}

export async function listSamplers(db: Database, clientSessionId: string): Promise<readonly SamplerRecord[]> {
  const rows = await db
    .selectFrom('samplers')
    .selectAll()
    .where('client_session_id', '=', clientSessionId)
    .orderBy('created_at_ms')
    .execute()
  return rows.map(toSampler)
}

function toSampler(row: {
  id: string
  entity: string
  client_session_id: string
  base_model: string
  weights_id: string | null
  model_path: string | null
}): SamplerRecord {
  return {
    id: row.id,
    entity: row.entity,
    clientSessionId: row.client_session_id,
    baseModel: row.base_model,
    weightsId: row.weights_id,
    modelPath: row.model_path,
  }
}

function toClientSession(row: {
  id: string
  entity: string
  project: string | null
  tags: string
  user_metadata: string
  display_name: string | null
  created_at_ms: number
  seen_at_ms: number
  ended_at_ms: number | null
}): ClientSessionRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    tags: JSON.parse(row.tags) as string[],
    userMetadata: JSON.parse(row.user_metadata) as Record<string, unknown>,
    displayName: row.display_name,
    createdAtMs: row.created_at_ms,
    seenAtMs: row.seen_at_ms,
    endedAtMs: row.ended_at_ms,
  }
}
