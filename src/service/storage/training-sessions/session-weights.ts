/**
 * Rows of what clients save of training sessions.
 */
import { type Database, databaseNowMs } from '../database.js'
import { readOneOf } from '../row-values.js'
import { type StoredFile, toFile } from './training-sessions.js'

/** With the optimizer's moments; the adapter alone, to sample from; the adapter alone, to be fetched. */
export const WEIGHT_KINDS = ['weights', 'sampler_weights', 'external_weights'] as const
export type WeightKind = (typeof WEIGHT_KINDS)[number]

export interface NewSessionWeights {
  readonly id: string
  readonly entity: string
  readonly sessionId: string
  readonly kind: WeightKind
  /** Null for weights that only a sampler names. */
  readonly name: string | null
  /** Step of the checkpoint it became; null: none. */
  readonly step: number | null
  readonly userMetadata: Readonly<Record<string, unknown>>
  /** From now on; null: they stay. */
  readonly ttlMs: number | null
  readonly files: readonly StoredFile[]
}

export interface SessionWeightsRecord extends Omit<NewSessionWeights, 'ttlMs'> {
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
}

export async function insertSessionWeights(db: Database, weights: NewSessionWeights): Promise<void> {
  const { ttlMs } = weights
  await db
    .insertInto('session_weights')
    .values((e) => ({
      id: weights.id,
      entity: weights.entity,
      session_id: weights.sessionId,
      kind: weights.kind,
      name: weights.name,
      step: weights.step,
      user_metadata: JSON.stringify(weights.userMetadata),
      created_at_ms: databaseNowMs,
      expires_at_ms: ttlMs === null ? null : e(databaseNowMs, '+', ttlMs),
    }))
    .execute()
  for (const { name, sha256, sizeBytes } of weights.files) {
    await db
      .insertInto('session_weight_files')
      .values({ weights_id: weights.id, name, sha256, size_bytes: sizeBytes })
      .execute()
  }
}

/** Weights that have not expired. */
export async function findSessionWeights(
  db: Database,
  by: { readonly id: string } | { readonly sessionId: string; readonly kind: WeightKind; readonly name: string },
): Promise<SessionWeightsRecord | null> {
  let query = liveWeights(db)
  if ('id' in by) query = query.where('id', '=', by.id)
  else query = query.where('session_id', '=', by.sessionId).where('kind', '=', by.kind).where('name', '=', by.name)
  const row = await query.executeTakeFirst()
  return row === undefined ? null : toWeights(row, await filesOf(db, row.id))
}

/** Named weights of a session, or of an entity, newest first, and how many there are. */
export async function listSessionWeights(
  db: Database,
  of: { readonly entity: string; readonly project: string | null; readonly sessionId?: string },
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly weights: readonly SessionWeightsRecord[]; readonly total: number }> {
  let query = liveWeights(db).where('entity', '=', of.entity).where('name', 'is not', null)
  if (of.sessionId !== undefined) query = query.where('session_id', '=', of.sessionId)
  if (of.project !== null) {
    const { project } = of
    query = query.where('session_id', 'in', (e) =>
      e.selectFrom('training_sessions').select('training_sessions.id').where('project', '=', project),
    )
  }
  const rows = await query.orderBy('created_at_ms', 'desc').orderBy('id', 'desc').execute()
  const weights: SessionWeightsRecord[] = []
  for (const row of rows.slice(page.offset, page.offset + page.limit)) {
    weights.push(toWeights(row, await filesOf(db, row.id)))
  }
  return { weights, total: rows.length }
}

/** @returns whether there were any */
export async function deleteSessionWeights(db: Database, id: string): Promise<boolean> {
  const result = await db.deleteFrom('session_weights').where('id', '=', id).executeTakeFirst()
  return result.numDeletedRows > 0n
}

/** Deletes all weights of a session that have no name, but the newest. */
export async function keepNewestUnnamed(db: Database, sessionId: string, count: number): Promise<void> {
  const rows = await db
    .selectFrom('session_weights')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('name', 'is', null)
    .orderBy('id', 'desc')
    .limit(1000)
    .offset(count)
    .execute()
  for (const { id } of rows) await deleteSessionWeights(db, id)
}

/** @param ttlMs from now on; null: they stay */
export async function setWeightsExpiry(db: Database, id: string, ttlMs: number | null): Promise<void> {
  await db
    .updateTable('session_weights')
    .set((e) => ({ expires_at_ms: ttlMs === null ? null : e(databaseNowMs, '+', ttlMs) }))
    .where('id', '=', id)
    .execute()
}

/** Deletes what has expired. @returns what it was */
export async function deleteExpiredWeights(db: Database): Promise<readonly SessionWeightsRecord[]> {
  const rows = await db
    .selectFrom('session_weights')
    .selectAll()
    .where('expires_at_ms', '<=', databaseNowMs)
    .limit(100)
    .execute()
  const deleted: SessionWeightsRecord[] = []
  for (const row of rows) {
    deleted.push(toWeights(row, await filesOf(db, row.id)))
    await deleteSessionWeights(db, row.id)
  }
  return deleted
}

function liveWeights(db: Database) {
  return db
    .selectFrom('session_weights')
    .selectAll()
    .where((e) => e.or([e('expires_at_ms', 'is', null), e('expires_at_ms', '>', databaseNowMs)]))
}

async function filesOf(db: Database, id: string): Promise<readonly StoredFile[]> {
  const rows = await db
    .selectFrom('session_weight_files')
    .selectAll()
    .where('weights_id', '=', id)
    .orderBy('name')
    .execute()
  return rows.map(toFile)
}

function toWeights(
  row: {
    id: string
    entity: string
    session_id: string
    kind: string
    name: string | null
    step: number | null
    user_metadata: string
    created_at_ms: number
    expires_at_ms: number | null
  },
  files: readonly StoredFile[],
): SessionWeightsRecord {
  return {
    id: row.id,
    entity: row.entity,
    sessionId: row.session_id,
    kind: readOneOf(WEIGHT_KINDS, row.kind, 'kind of saved weights'),
    name: row.name,
    step: row.step,
    userMetadata: JSON.parse(row.user_metadata) as Record<string, unknown>,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
    files,
  }
}
