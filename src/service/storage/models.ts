/**
 * Rows of models. Names are data: compared exactly, never part of a path.
 */
import { type RawBuilder, sql } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import type { ModelOrder } from '#contract/wire/model-orders.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { containsText, greatest } from './sql-words.js'

/** A model as the rest of the program sees it. */
export interface ModelRecord {
  readonly id: string
  readonly entity: string
  readonly project: string
  readonly name: string
  readonly baseModel: string
  readonly runId: string
  /** Step of the newest checkpoint ever made. */
  readonly step: number
  readonly createdAtMs: number
}

export type NewModel = Omit<ModelRecord, 'step' | 'createdAtMs'>

export interface ModelFilter extends PageOptions {
  readonly entity: string
  readonly project?: string | undefined
  readonly name?: string | undefined
  readonly baseModel?: string | undefined
  /** Text that the name holds, in upper or lower case. */
  readonly text?: string | undefined
  /** Default `created`. */
  readonly sort?: ModelOrder | undefined
}

/**
 * When something last happened to a model, milliseconds: its newest job, its newest log, or itself; now while a job of it runs. Both are
 * found by an index: ids sort by time.
 */
const lastActiveMs = greatest(
  sql<number>`models.created_at_ms`,
  sql<number>`coalesce((select case job.status when 'running' then ${databaseNowMs}
      else coalesce(job.ended_at_ms, job.started_at_ms, job.created_at_ms) end
    from training_jobs as job where job.model_id = models.id order by job.id desc limit 1), 0)`,
  sql<number>`coalesce((select log.created_at_ms
    from trajectory_logs as log where log.model_id = models.id order by log.id desc limit 1), 0)`,
)

const ORDERS: Readonly<
  Record<ModelOrder, { readonly by: RawBuilder<unknown> | null; readonly direction: 'asc' | 'desc' }>
> = {
  created: { by: null, direction: 'asc' },
  '-created': { by: null, direction: 'desc' },
  '-last_active': { by: lastActiveMs, direction: 'desc' },
  name: { by: sql`models.name`, direction: 'asc' },
}

/** Inserts; a taken (entity, project, name) fails with a unique violation. */
export async function insertModel(db: Database, model: NewModel): Promise<void> {
  await db
    .insertInto('models')
    .values({
      id: model.id,
      entity: model.entity,
      project: model.project,
      name: model.name,
      base_model: model.baseModel,
      run_id: model.runId,
      step: 0,
      created_at_ms: databaseNowMs,
    })
    .execute()
}

export async function findModel(db: Database, id: string): Promise<ModelRecord | null> {
  const row = await db.selectFrom('models').selectAll().where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toModel(row)
}

export async function findModelByName(
  db: Database,
  entity: string,
  project: string,
  name: string,
): Promise<ModelRecord | null> {
  const row = await db
    .selectFrom('models')
    .selectAll()
    .where('entity', '=', entity)
    .where('project', '=', project)
    .where('name', '=', name)
    .executeTakeFirst()
  return row === undefined ? null : toModel(row)
}

/** Models of an entity; by last activity all of them are looked at, two index seeks each. */
export async function listModels(db: Database, filter: ModelFilter): Promise<Page<ModelRecord>> {
  let query = db.selectFrom('models').selectAll().where('entity', '=', filter.entity)
  if (filter.project !== undefined) query = query.where('project', '=', filter.project)
  if (filter.name !== undefined) query = query.where('name', '=', filter.name)
  if (filter.baseModel !== undefined) query = query.where('base_model', '=', filter.baseModel)
  if (filter.text !== undefined && filter.text !== '') {
    const { text } = filter
    const note = sql<string>`coalesce((select description || ' ' || tags from model_notes where model_id = models.id), '')`
    query = query.where((e) => e.or([containsText(sql<string>`models.name`, text), containsText(note, text)]))
  }
  const { by, direction } = ORDERS[filter.sort ?? 'created']
  if (filter.after !== undefined) {
    const cursor = await findModel(db, filter.after)
    const isOwn = cursor?.entity === filter.entity && (filter.project ?? cursor.project) === cursor.project
    if (!isOwn) throw unknownCursor(filter.after)
    const behind = sql.raw(direction === 'asc' ? '>' : '<')
    query =
      by === null
        ? query.where('id', direction === 'asc' ? '>' : '<', cursor.id)
        : query.where(
            sql<boolean>`(${by}, models.id) ${behind} (select ${by}, models.id from models where models.id = ${cursor.id})`,
          )
  }
  if (by !== null) query = query.orderBy(by, direction)
  const rows = await query
    .orderBy('id', direction)
    .limit(filter.limit + 1)
    .execute()
  return toPage(rows, filter.limit, toModel)
}

/** When something last happened to models, milliseconds by id. */
export async function findLastActive(db: Database, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('models')
    .select(['id', lastActiveMs.as('at_ms')])
    .where('id', 'in', [...ids])
    .execute()
  return new Map(rows.map((row) => [row.id, row.at_ms]))
}

/** All models of an entity that have `name`, in any project or in one; at most `limit`. */
export async function findModelsNamed(
  db: Database,
  owner: { readonly entity: string; readonly project: string | null },
  name: string,
  limit: number,
): Promise<readonly ModelRecord[]> {
  let query = db.selectFrom('models').selectAll().where('entity', '=', owner.entity).where('name', '=', name)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  const rows = await query.orderBy('id').limit(limit).execute()
  return rows.map(toModel)
}

/** Models of all projects. */
export async function countModels(db: Database): Promise<number> {
  const { count } = await db
    .selectFrom('models')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** Other whenever a model of the owner has come or gone. */
export async function modelsStamp(
  db: Database,
  { entity, project }: { readonly entity: string; readonly project: string | null },
): Promise<string> {
  let counted = db
    .selectFrom('model_counts')
    .select((eb) => eb.fn.sum<number | null>('count').as('count'))
    .where('entity', '=', entity)
  if (project !== null) counted = counted.where('project', '=', project)
  let newest = db.selectFrom('models').select('id').where('entity', '=', entity).orderBy('id', 'desc').limit(1)
  if (project !== null) newest = newest.where('project', '=', project)
  const { count } = await counted.executeTakeFirstOrThrow()
  return `${count ?? 0} ${(await newest.executeTakeFirst())?.id ?? ''}`
}

/** How many models are trained from a base model; everybody's when no owner is given. */
export async function countModelsOf(
  db: Database,
  baseModel: string,
  owner?: { readonly entity: string; readonly project: string | null },
): Promise<number> {
  let query = db
    .selectFrom('model_counts')
    .select((eb) => eb.fn.sum<number | null>('count').as('count'))
    .where('base_model', '=', baseModel)
  if (owner !== undefined) query = query.where('entity', '=', owner.entity)
  if (typeof owner?.project === 'string') query = query.where('project', '=', owner.project)
  return (await query.executeTakeFirstOrThrow()).count ?? 0
}

/** Whether some model answers to `name` or `project/name` in a chat request. */
export async function isModelAddress(db: Database, address: string): Promise<boolean> {
  const [first = '', second] = address.split('/')
  let query = db
    .selectFrom('models')
    .select('id')
    .where('name', '=', second ?? first)
  if (second !== undefined) query = query.where('project', '=', first)
  return (await query.limit(1).executeTakeFirst()) !== undefined
}

export async function setModelStep(db: Database, id: string, step: number): Promise<void> {
  await db.updateTable('models').set({ step }).where('id', '=', id).execute()
}

/** Deletes the row; checkpoints must be gone. */
export async function deleteModelRow(db: Database, id: string): Promise<void> {
  await db.deleteFrom('models').where('id', '=', id).execute()
}

function toModel(row: {
  id: string
  entity: string
  project: string
  name: string
  base_model: string
  run_id: string
  step: number
  created_at_ms: number
}): ModelRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    name: row.name,
    baseModel: row.base_model,
    runId: row.run_id,
    step: row.step,
    createdAtMs: row.created_at_ms,
  }
}
