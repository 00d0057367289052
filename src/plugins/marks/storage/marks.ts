/**
 * Rows of marks. Each belongs to a model and goes with it; what it is about is copied into it.
 */
import { type Selectable, sql } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import { MARK_SOURCES, MARKS, type MarkSource, type MarkWord } from '#contract/wire/training/mark-words.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, unknownCursor } from '#service/storage/paging.js'
import { readObject, readOneOf } from '#service/storage/row-values.js'
import { type MarksTable, markTables } from './tables.js'

/** What was said. */
export interface MarkContent {
  readonly prompt: readonly JsonObject[]
  readonly answer: readonly JsonObject[]
  readonly other: readonly JsonObject[] | null
  readonly tools: readonly JsonObject[] | null
}

/** Where the answer stands. */
export interface MarkPlace {
  readonly source: MarkSource
  /** Id of the job or log; null for an answer of a chat. */
  readonly sourceId: string | null
  readonly group: number | null
  readonly trajectory: number | null
}

export interface NewMark extends MarkPlace, MarkContent {
  readonly id: string
  readonly modelId: string
  readonly pairWith: number | null
  readonly step: number | null
  readonly mark: MarkWord
  readonly edited: string | null
  readonly note: string | null
}

export interface MarkRecord extends NewMark {
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

export interface MarkFilter {
  readonly mark?: MarkWord | undefined
  readonly source?: MarkSource | undefined
  readonly sourceId?: string | undefined
  readonly group?: number | undefined
  readonly trajectory?: number | undefined
}

/** A page ends behind the mark that reaches this, characters: a hundred of the longest would be 35 MB. */
export const PAGE_CONTENT = 2 * 1024 * 1024

/** Inserts, or replaces what a reader said of the same place; its id and time of birth stay. */
export async function putMark(db: Database, mark: NewMark): Promise<void> {
  const { prompt, answer, other, tools } = mark
  const values = {
    pair_with: mark.pairWith,
    step: mark.step,
    mark: mark.mark,
    edited: mark.edited,
    note: mark.note,
    content: JSON.stringify({ prompt, answer, other, tools }),
    updated_at_ms: databaseNowMs,
  }
  await markTables(db)
    .insertInto('marks')
    .values({
      ...values,
      id: mark.id,
      model_id: mark.modelId,
      source: mark.source,
      source_id: mark.sourceId,
      group_index: mark.group,
      trajectory_index: mark.trajectory,
      created_at_ms: databaseNowMs,
    })
    .onConflict((conflict) =>
      conflict.columns(['model_id', 'source_id', 'group_index', 'trajectory_index']).doUpdateSet(values),
    )
    .execute()
}

export async function findMark(db: Database, modelId: string, id: string): Promise<MarkRecord | null> {
  const row = await markTables(db)
    .selectFrom('marks')
    .selectAll()
    .where('model_id', '=', modelId)
    .where('id', '=', canonicalId(id))
    .executeTakeFirst()
  return row === undefined ? null : toMark(row)
}

export async function findMarkAt(db: Database, modelId: string, place: MarkPlace): Promise<MarkRecord | null> {
  const row = await markTables(db)
    .selectFrom('marks')
    .selectAll()
    .where('model_id', '=', modelId)
    .where('source_id', '=', place.sourceId)
    .where('group_index', '=', place.group)
    .where('trajectory_index', '=', place.trajectory)
    .executeTakeFirst()
  return row === undefined ? null : toMark(row)
}

/** Marks of a model by their ids; a page may be shorter than asked where they are long. @param order `desc`: newest first */
export async function listMarks(
  db: Database,
  modelId: string,
  options: PageOptions & MarkFilter & { readonly order: 'asc' | 'desc' },
): Promise<Page<MarkRecord>> {
  const { mark, source, sourceId, group, trajectory, after, order, limit } = options
  let query = markTables(db).selectFrom('marks').where('model_id', '=', modelId)
  if (mark !== undefined) query = query.where('mark', '=', mark)
  if (source !== undefined) query = query.where('source', '=', source)
  if (sourceId !== undefined) query = query.where('source_id', '=', canonicalId(sourceId))
  if (group !== undefined) query = query.where('group_index', '=', group)
  if (trajectory !== undefined) query = query.where('trajectory_index', '=', trajectory)
  if (after !== undefined) {
    if ((await findMark(db, modelId, after)) === null) throw unknownCursor(after)
    query = query.where('id', order === 'asc' ? '>' : '<', after)
  }
  const sizes = await query
    .select(['id', sql<number>`length(content) + coalesce(length(edited), 0)`.as('size')])
    .orderBy('id', order)
    .limit(limit + 1)
    .execute()
  let sum = 0
  const fitting = sizes.slice(0, limit).filter(({ size }) => {
    const fits = sum < PAGE_CONTENT
    sum += size
    return fits
  })
  if (fitting.length === 0) return { items: [], hasMore: false }
  const ids = fitting.map(({ id }) => id)
  const rows = await markTables(db)
    .selectFrom('marks')
    .selectAll()
    .where('id', 'in', ids)
    .orderBy('id', order)
    .execute()
  return { items: rows.map(toMark), hasMore: sizes.length > fitting.length }
}

/** Marks behind an id, oldest first; that one may be gone. Empty at the end. */
export async function marksAfter(
  db: Database,
  modelId: string,
  { id, limit }: { readonly id: string | null; readonly limit: number },
): Promise<readonly MarkRecord[]> {
  let query = markTables(db).selectFrom('marks').selectAll().where('model_id', '=', modelId)
  if (id !== null) query = query.where('id', '>', id)
  return (await query.orderBy('id').limit(limit).execute()).map(toMark)
}

export async function countMarks(db: Database, modelId: string): Promise<number> {
  const { count } = await markTables(db)
    .selectFrom('marks')
    .select((e) => e.fn.countAll().as('count'))
    .where('model_id', '=', modelId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Steps of a model that answered something marked. */
export async function listMarkedSteps(db: Database, modelId: string): Promise<readonly number[]> {
  const rows = await markTables(db).selectFrom('marks').select('step').where('model_id', '=', modelId).execute()
  return rows.flatMap(({ step }) => step ?? [])
}

export async function deleteMark(db: Database, id: string): Promise<void> {
  await markTables(db).deleteFrom('marks').where('id', '=', id).execute()
}

function toMark(row: Selectable<MarksTable>): MarkRecord {
  const content = readObject(row.content, 'content of a mark')
  const messages = (name: keyof MarkContent) => (content[name] ?? null) as readonly JsonObject[] | null
  return {
    prompt: messages('prompt') ?? [],
    answer: messages('answer') ?? [],
    other: messages('other'),
    tools: messages('tools'),
    id: row.id,
    modelId: row.model_id,
    source: readOneOf(MARK_SOURCES, row.source, 'source of a mark'),
    sourceId: row.source_id,
    group: row.group_index,
    trajectory: row.trajectory_index,
    pairWith: row.pair_with,
    step: row.step,
    mark: readOneOf(MARKS, row.mark, 'word of a mark'),
    edited: row.edited,
    note: row.note,
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}
