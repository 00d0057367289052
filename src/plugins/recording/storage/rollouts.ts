/**
 * Rows of recorded rollouts and of their calls. What a request may still do is one statement with its condition, so that
 * servers that share the database count together.
 */
import { type Selectable, sql } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import type { Tenant } from '#service/operations/access/principal.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import { readObject, readOneOf, storableText } from '#service/storage/row-values.js'
import type { RolloutResult } from '../result.js'
import { ROLLOUT_KINDS, ROLLOUT_STATUSES, type RolloutKind, type RolloutSampling, type RolloutStatus } from '../wire.js'
import { type RecordedRolloutsTable, recordingTables } from './tables.js'

interface Owner extends Tenant {
  readonly keyId: string
  readonly usageProject: string | null
}

interface NewRollout extends Owner {
  readonly id: string
  readonly tokenHash: string | null
  readonly kind: RolloutKind
  readonly parentId: string | null
  readonly session: string | null
  readonly model: string
  readonly run: string
  readonly task: string
  readonly group: string
  readonly sampling: RolloutSampling
  readonly maxTurns: number
  readonly maxTokens: number
  /** From now on, by the database's clock; or the time itself. */
  readonly expires: { readonly inMs: number } | { readonly atMs: number }
}

export interface RolloutRecord extends Omit<NewRollout, 'expires' | 'tokenHash'> {
  /** Time counts: one that is open and too old has expired. */
  readonly status: RolloutStatus
  readonly turns: number
  readonly sampledTokens: number
  readonly recordedTokens: number
  readonly undeliveredCalls: number
  readonly overriddenCalls: number
  readonly result: RolloutResult | null
  readonly bodySha256: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly endedAtMs: number | null
}

/** Tokens that a rollout records, prompts and answers together: its rows have each prompt once more with every turn. */
const MOST_RECORDED_TOKENS = 8_000_000

const rollouts = (db: Database) => recordingTables(db)

export async function insertRollout(db: Database, rollout: NewRollout): Promise<void> {
  const { expires } = rollout
  await rollouts(db)
    .insertInto('recorded_rollouts')
    .values({
      id: rollout.id,
      entity: rollout.entity,
      project: rollout.project,
      key_id: rollout.keyId,
      usage_project: rollout.usageProject,
      token_hash: rollout.tokenHash,
      kind: rollout.kind,
      parent_id: rollout.parentId,
      session: rollout.session,
      model: rollout.model,
      run: rollout.run,
      task: rollout.task,
      task_group: rollout.group,
      sampling: JSON.stringify(rollout.sampling),
      max_turns: rollout.maxTurns,
      max_tokens: rollout.maxTokens,
      status: 'open',
      ...{ turns: 0, sampled_tokens: 0, recorded_tokens: 0, undelivered_calls: 0, overridden_calls: 0, body_bytes: 0 },
      created_at_ms: databaseNowMs,
      expires_at_ms: 'atMs' in expires ? expires.atMs : sql<number>`${databaseNowMs} + ${sql.lit(expires.inMs)}`,
    })
    .onConflict((conflict) => conflict.columns(['parent_id', 'session']).doNothing())
    .execute()
}

function selected(db: Database) {
  return rollouts(db)
    .selectFrom('recorded_rollouts')
    .selectAll()
    .select(sql<number>`case when expires_at_ms <= ${databaseNowMs} then 1 else 0 end`.as('is_over'))
}

type Row = Selectable<RecordedRolloutsTable> & { readonly is_over?: number }

function ownedBy(db: Database, owner: Tenant) {
  const query = selected(db).where('entity', '=', owner.entity)
  return owner.project === null ? query : query.where('project', '=', owner.project)
}

export async function findRollout(db: Database, owner: Tenant, id: string): Promise<RolloutRecord | null> {
  const row = await ownedBy(db, owner).where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

export async function findByToken(db: Database, tokenHash: string): Promise<RolloutRecord | null> {
  const row = await selected(db).where('token_hash', '=', tokenHash).executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

export async function findSession(db: Database, parentId: string, session: string): Promise<RolloutRecord | null> {
  const row = await selected(db).where('parent_id', '=', parentId).where('session', '=', session).executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** Sessions of an address that have not ended. */
export async function listOpenSessions(db: Database, parentId: string): Promise<readonly string[]> {
  const rows = await rollouts(db)
    .selectFrom('recorded_rollouts')
    .select('id')
    .where('parent_id', '=', parentId)
    .where('ended_at_ms', 'is', null)
    .execute()
  return rows.map(({ id }) => id)
}

/** Gives an open one another token: the one before opens nothing from now on. */
export async function setToken(db: Database, id: string, tokenHash: string): Promise<void> {
  await rollouts(db)
    .updateTable('recorded_rollouts')
    .set({ token_hash: tokenHash })
    .where('id', '=', id)
    .where('ended_at_ms', 'is', null)
    .execute()
}

interface Filter extends PageOptions {
  readonly run?: string | undefined
  readonly session?: string | undefined
}

/** Newest first; addresses of sessions are among them. */
export async function listRollouts(db: Database, owner: Tenant, filter: Filter): Promise<Page<RolloutRecord>> {
  let query = ownedBy(db, owner)
  if (filter.run !== undefined) query = query.where('run', '=', filter.run)
  if (filter.session !== undefined) query = query.where('session', '=', filter.session)
  if (filter.after !== undefined) {
    if ((await findRollout(db, owner, filter.after)) === null) throw unknownCursor(filter.after)
    query = query.where('id', '<', filter.after)
  }
  const rows = await query
    .orderBy('id', 'desc')
    .limit(filter.limit + 1)
    .execute()
  return toPage(rows, filter.limit, toRecord)
}

/** Those of a run that are no addresses of sessions, the oldest first, in parts behind `after`. */
export async function listOfRun(
  db: Database,
  owner: Tenant,
  {
    run,
    task,
    group,
    after,
    limit,
  }: Filter & { readonly task?: string | undefined; readonly group?: string | undefined },
): Promise<readonly RolloutRecord[]> {
  let query = ownedBy(db, owner)
    .where('run', '=', run ?? '')
    .where('kind', '=', 'rollout')
  if (task !== undefined) query = query.where('task', '=', task)
  if (group !== undefined) query = query.where('task_group', '=', group)
  if (after !== undefined) query = query.where('id', '>', after)
  const rows = await query.orderBy('id').limit(limit).execute()
  return rows.map(toRecord)
}

/** Rollouts of an entity that have not ended. */
export async function countOpen(db: Database, entity: string): Promise<number> {
  const row = await rollouts(db)
    .selectFrom('recorded_rollouts')
    .select((e) => e.fn.countAll().as('count'))
    .where('ended_at_ms', 'is', null)
    .where('entity', '=', entity)
    .where('expires_at_ms', '>', databaseNowMs)
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** Lets one more request in. @returns null where the rollout has ended, or has had all its turns and tokens */
export async function beginTurn(db: Database, id: string): Promise<RolloutRecord | null> {
  const row = await rollouts(db)
    .updateTable('recorded_rollouts')
    .set((e) => ({ turns: e('turns', '+', 1) }))
    .where('id', '=', id)
    .where('status', '=', 'open')
    .where('expires_at_ms', '>', databaseNowMs)
    .where('recorded_tokens', '<', MOST_RECORDED_TOKENS)
    .whereRef('turns', '<', 'max_turns')
    .whereRef('sampled_tokens', '<', 'max_tokens')
    .returningAll()
    .executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** What a request added, or takes back. */
interface Counts {
  readonly turns?: number
  readonly sampledTokens?: number
  readonly recordedTokens?: number
  readonly undeliveredCalls?: number
  readonly overriddenCalls?: number
}

/** Adds to the counts of an open one. @returns whether it is open */
export async function addCounts(db: Database, id: string, counts: Counts): Promise<boolean> {
  const { turns = 0, sampledTokens = 0, recordedTokens = 0, undeliveredCalls = 0, overriddenCalls = 0 } = counts
  const updated = await rollouts(db)
    .updateTable('recorded_rollouts')
    .set((e) => ({
      turns: e('turns', '+', turns),
      sampled_tokens: e('sampled_tokens', '+', sampledTokens),
      recorded_tokens: e('recorded_tokens', '+', recordedTokens),
      undelivered_calls: e('undelivered_calls', '+', undeliveredCalls),
      overridden_calls: e('overridden_calls', '+', overriddenCalls),
    }))
    .where('id', '=', id)
    .where('status', '=', 'open')
    .executeTakeFirst()
  return updated.numUpdatedRows > 0n
}

export async function insertCall(db: Database, call: { id: string; rolloutId: string; sha256: string }): Promise<void> {
  const row = { id: call.id, rollout_id: call.rolloutId, body_sha256: call.sha256 }
  await rollouts(db).insertInto('recorded_calls').values(row).execute()
}

export async function deleteCalls(db: Database, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0
  const deleted = await rollouts(db).deleteFrom('recorded_calls').where('id', 'in', ids).executeTakeFirst()
  return Number(deleted.numDeletedRows)
}

/** Blobs of the calls of a rollout, in the order in which they began. */
export async function listCalls(db: Database, rolloutId: string): Promise<readonly string[]> {
  const rows = await rollouts(db)
    .selectFrom('recorded_calls')
    .select('body_sha256')
    .where('rollout_id', '=', rolloutId)
    .orderBy('id')
    .execute()
  return rows.map(({ body_sha256: sha256 }) => sha256)
}

interface Ending {
  readonly status: 'finished' | 'failed' | 'expired'
  readonly result: RolloutResult | null
  readonly body: { readonly sha256: string; readonly sizeBytes: number } | null
  readonly task?: string | null | undefined
  readonly group?: string | null | undefined
}

/**
 * Ends an open one; its calls and its token are worth nothing more. Call in a transaction.
 *
 * @param calls how many it had when they were read: null is answered where another came
 */
export async function endRollout(
  db: Database,
  id: string,
  { status, result, body, task, group }: Ending,
  calls: number | null,
): Promise<RolloutRecord | null> {
  if (calls !== null && (await listCalls(db, id)).length !== calls) return null
  const row = await rollouts(db)
    .updateTable('recorded_rollouts')
    .set({
      ...{ status, token_hash: null, ended_at_ms: databaseNowMs },
      result: result === null ? null : storableText(JSON.stringify(result)),
      body_sha256: body?.sha256 ?? null,
      body_bytes: body?.sizeBytes ?? 0,
      ...(task == null ? {} : { task }),
      ...(group == null ? {} : { task_group: group }),
    })
    .where('id', '=', id)
    .where('ended_at_ms', 'is', null)
    .returningAll()
    .executeTakeFirst()
  if (row === undefined) return null
  await rollouts(db).deleteFrom('recorded_calls').where('rollout_id', '=', id).execute()
  return toRecord(row)
}

export async function deleteRollout(db: Database, id: string): Promise<void> {
  await rollouts(db)
    .deleteFrom('recorded_rollouts')
    .where((e) => e.or([e('id', '=', id), e('parent_id', '=', id)]))
    .execute()
}

/** Some open ones whose time is over. */
export async function listOverdue(db: Database, limit: number): Promise<readonly string[]> {
  const rows = await rollouts(db)
    .selectFrom('recorded_rollouts')
    .select('id')
    .where('ended_at_ms', 'is', null)
    .where('expires_at_ms', '<=', databaseNowMs)
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Deletes what ended too long ago, and addresses and rollouts below which nobody ever asked. @returns how many */
export async function deleteOld(db: Database, keepMs: number): Promise<number> {
  const over = sql<number>`${databaseNowMs} - ${sql.lit(keepMs)}`
  const deleted = await rollouts(db)
    .deleteFrom('recorded_rollouts')
    .where((e) =>
      e.or([
        e('ended_at_ms', '<=', over),
        e.and([e('status', '=', 'expired'), e('turns', '=', 0), e('undelivered_calls', '=', 0)]),
      ]),
    )
    .where('ended_at_ms', 'is not', null)
    .executeTakeFirst()
  return Number(deleted.numDeletedRows)
}

/** Deletes the oldest of an entity that have ended and are more than the limits. @returns how many */
export async function trimRollouts(
  db: Database,
  entity: string,
  limits: { readonly count: number; readonly sizeBytes: number },
): Promise<number> {
  const newestFirst = sql.raw('over (order by ended_at_ms desc, id desc)')
  const ranked = rollouts(db)
    .selectFrom('recorded_rollouts')
    .select(['id', sql<number>`row_number() ${newestFirst}`.as('place')])
    .select(sql<number>`sum(body_bytes) ${newestFirst}`.as('bytes'))
    .where('entity', '=', entity)
    .where('ended_at_ms', 'is not', null)
    .as('ranked')
  const deleted = await rollouts(db)
    .deleteFrom('recorded_rollouts')
    .where('id', 'in', (e) =>
      e
        .selectFrom(ranked)
        .select('ranked.id')
        .where((or) => or.or([or('ranked.place', '>', limits.count), or('ranked.bytes', '>', limits.sizeBytes)])),
    )
    .executeTakeFirst()
  return Number(deleted.numDeletedRows)
}

/** Entities that have rollouts that ended. */
export async function listEntities(db: Database): Promise<readonly string[]> {
  const rows = await rollouts(db).selectFrom('recorded_rollouts').select('entity').distinct().execute()
  return rows.map(({ entity }) => entity)
}

function toRecord(row: Row): RolloutRecord {
  const status = readOneOf(ROLLOUT_STATUSES, row.status, 'status of a rollout')
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    keyId: row.key_id,
    usageProject: row.usage_project,
    kind: readOneOf(ROLLOUT_KINDS, row.kind, 'kind of a rollout'),
    parentId: row.parent_id,
    session: row.session,
    model: row.model,
    run: row.run,
    task: row.task,
    group: row.task_group,
    sampling: readObject(row.sampling, 'sampling of a rollout') as RolloutSampling,
    maxTurns: row.max_turns,
    maxTokens: Number(row.max_tokens),
    status: status === 'open' && Number(row.is_over ?? 0) === 1 ? 'expired' : status,
    turns: row.turns,
    sampledTokens: Number(row.sampled_tokens),
    recordedTokens: Number(row.recorded_tokens),
    undeliveredCalls: row.undelivered_calls,
    overriddenCalls: row.overridden_calls,
    result: row.result === null ? null : (JSON.parse(row.result) as RolloutResult),
    bodySha256: row.body_sha256,
    createdAtMs: Number(row.created_at_ms),
    expiresAtMs: Number(row.expires_at_ms),
    endedAtMs: row.ended_at_ms === null ? null : Number(row.ended_at_ms),
  }
}
