/**
 * Rows of loops: waiting, running, ended. Which change may be made when is the service's and the supervisor's business; what a
 * process reports stands in `reports.ts`.
 */
import type { Selectable } from 'kysely'
import { canonicalId, type IdSource } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import { readObject, readOneOf, storableText } from '#service/storage/row-values.js'
import { announce } from '#service/storage/schema-part.js'
import type { LoopEvent, LoopRecord, LoopSpec } from '../loop-service.js'
import { groupsFile } from '../messages.js'
import { listMeasuredSteps } from './steps.js'
import { type LoopEventsTable, type LoopsTable, loopTables } from './tables.js'

/** Whose loops: those of an entity, or of one project of it. */
export interface LoopTenant {
  readonly entity: string
  readonly project: string | null
}

export const LOOP_STATUSES = ['queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled'] as const
export const PHASES = ['sampling', 'grading', 'training', 'evaluating'] as const
export const UNENDED = ['queued', 'running', 'paused'] as const

/** What was used. */
export type Spent = LoopRecord['spent']
const NOTHING_SPENT: Spent = { graderTokens: 0, seconds: 0, endpointCalls: 0, trainedTokens: 0 }

/** A loop as the server keeps it. */
export interface StoredLoop extends LoopRecord {
  /** Of the model, when the step that runs began. */
  readonly baseStep: number | null
  readonly jobId: string | null
  readonly progress: JsonObject
  /** What was used when it was resumed last: limits count from there. */
  readonly spentBefore: Spent
  readonly isPauseAsked: boolean
  readonly attempt: number
  readonly losses: number
  readonly sessionId: string | null
}

export async function insertLoop(
  db: Database,
  { id, owner, spec }: Pick<LoopRecord, 'id' | 'owner' | 'spec'>,
): Promise<void> {
  await loopTables(db)
    .insertInto('loops')
    .values({
      id,
      entity: owner.entity,
      project: owner.project,
      key_id: owner.keyId,
      model_id: spec.modelId,
      spec: JSON.stringify(spec),
      status: 'queued',
      progress: '{}',
      spent: '{}',
      created_at_ms: databaseNowMs,
    })
    .execute()
}

export async function findLoop(db: Database, tenant: LoopTenant, id: string): Promise<StoredLoop | null> {
  const row = await loopsOf(db, tenant).where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toLoop(row)
}

/** Whoever's it is. */
export async function findAnyLoop(db: Database, id: string): Promise<StoredLoop | null> {
  const row = await loopTables(db).selectFrom('loops').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toLoop(row)
}

/** Newest first. */
export async function listLoops(
  db: Database,
  tenant: LoopTenant,
  page: PageOptions & { readonly modelId?: string | undefined },
): Promise<Page<StoredLoop>> {
  let query = loopsOf(db, tenant)
  if (page.modelId !== undefined) query = query.where('model_id', '=', canonicalId(page.modelId))
  if (page.after !== undefined) {
    if ((await findLoop(db, tenant, page.after)) === null) throw unknownCursor(page.after)
    query = query.where('id', '<', canonicalId(page.after))
  }
  const rows = await query
    .orderBy('id', 'desc')
    .limit(page.limit + 1)
    .execute()
  return toPage(rows, page.limit, toLoop)
}

/** Loops of an entity that have not ended. */
export async function countUnended(db: Database, entity: string): Promise<number> {
  const row = await loopTables(db)
    .selectFrom('loops')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('entity', '=', entity)
    .where('status', 'in', UNENDED)
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** Columns that change. */
export type LoopChange = Partial<
  Pick<LoopsTable, 'status' | 'phase' | 'base_step' | 'job_id' | 'progress' | 'spent' | 'lease_until_ms' | 'session_id'>
> & {
  readonly step?: number
  readonly is_pause_asked?: number
  readonly losses?: number
  readonly error_code?: string | null
  readonly error_message?: string | null
  /** The loop ends with the change. */
  readonly hasEnded?: boolean
}

export async function changeLoop(db: Database, id: string, { hasEnded, ...change }: LoopChange): Promise<void> {
  await loopTables(db)
    .updateTable('loops')
    .set({
      ...change,
      ...(change.error_message === undefined ? {} : { error_message: storableText(change.error_message) }),
      ...(hasEnded === true ? { ended_at_ms: databaseNowMs, lease_until_ms: null, phase: null } : {}),
    })
    .where('id', '=', id)
    .execute()
}

export async function insertLoopEvent(
  db: Database,
  loopId: string,
  event: Omit<LoopEvent, 'createdAtMs'>,
): Promise<void> {
  await loopTables(db)
    .insertInto('loop_events')
    .values({
      id: event.id,
      loop_id: loopId,
      type: event.type,
      level: event.level,
      message: storableText(event.message),
      data: JSON.stringify(event.data),
      created_at_ms: databaseNowMs,
    })
    .execute()
}

/** Tells who wants to hear of it. */
export async function announceEnd(
  db: Database,
  ids: Pick<IdSource, 'uuid'>,
  { id, owner }: Pick<StoredLoop, 'id' | 'owner'>,
  how: 'succeeded' | 'failed' | 'cancelled',
): Promise<void> {
  const { entity, project } = owner
  await announce(db, { eventId: ids.uuid(), type: `loop.${how}`, entity, project, id })
}

/** Oldest first. */
export async function listLoopEvents(
  db: Database,
  loopId: string,
  page: PageOptions & { readonly type?: LoopEvent['type'] | undefined },
): Promise<Page<LoopEvent>> {
  let query = loopTables(db).selectFrom('loop_events').selectAll().where('loop_id', '=', loopId)
  if (page.after !== undefined) {
    const cursor = await query.where('id', '=', page.after).executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(page.after)
    query = query.where('id', '>', page.after)
  }
  if (page.type !== undefined) query = query.where('type', '=', page.type)
  const rows = await query
    .orderBy('id')
    .limit(page.limit + 1)
    .execute()
  return toPage(rows, page.limit, toEvent)
}

/** Steps of a model that loops need or have measured: no rule deletes their checkpoints. */
export async function listLoopSteps(db: Database, modelId: string): Promise<readonly number[]> {
  const rows = await loopTables(db)
    .selectFrom('loops')
    .select('base_step')
    .where('model_id', '=', modelId)
    .where('status', 'in', UNENDED)
    .execute()
  return [...rows.flatMap(({ base_step: base }) => base ?? []), ...(await listMeasuredSteps(db, modelId))]
}

/**
 * Files in which a loop's processes left each other groups, and which none needs any more. @param keptId that of the step that
 * runs
 */
export async function listLeftFiles(
  db: Database,
  { id, owner }: Pick<StoredLoop, 'id' | 'owner'>,
  keptId: string | null,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('files')
    .select('id')
    .where('entity', '=', owner.entity)
    .where('purpose', '=', 'user_data')
    .where('filename', 'like', groupsFile(id, '%'))
    .execute()
  return rows.flatMap((row) => (row.id === keptId ? [] : row.id))
}

function loopsOf(db: Database, { entity, project }: LoopTenant) {
  const query = loopTables(db).selectFrom('loops').selectAll().where('entity', '=', entity)
  return project === null ? query : query.where('project', '=', project)
}

function toLoop(row: Selectable<LoopsTable>): StoredLoop {
  const { before, ...spent } = readObject(row.spent, 'what a loop used') as Partial<Spent> & { before?: Partial<Spent> }
  return {
    id: row.id,
    owner: { entity: row.entity, project: row.project, keyId: row.key_id },
    spec: JSON.parse(row.spec) as LoopSpec,
    status: readOneOf(LOOP_STATUSES, row.status, 'status of a loop'),
    phase: row.phase === null ? null : readOneOf(PHASES, row.phase, 'phase of a loop'),
    step: row.step,
    baseStep: row.base_step,
    jobId: row.job_id,
    progress: readObject(row.progress, 'progress of a loop'),
    spent: { ...NOTHING_SPENT, ...spent },
    spentBefore: { ...NOTHING_SPENT, ...before },
    isPauseAsked: row.is_pause_asked === 1,
    attempt: row.attempt,
    losses: row.losses,
    sessionId: row.session_id,
    error: row.error_code === null ? null : { code: row.error_code, message: row.error_message ?? '' },
    createdAtMs: row.created_at_ms,
    startedAtMs: row.started_at_ms,
    endedAtMs: row.ended_at_ms,
  }
}

function toEvent(row: Selectable<LoopEventsTable>): LoopEvent {
  return {
    id: row.id,
    type: readOneOf(['message', 'metrics'], row.type, 'type of an event of a loop'),
    level: readOneOf(['info', 'warn', 'error'], row.level, 'level of an event of a loop'),
    message: row.message,
    data: readObject(row.data, 'data of an event of a loop'),
    createdAtMs: row.created_at_ms,
  }
}
