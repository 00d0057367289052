/**
 * Notes of models: a description and tags. A model has none until somebody writes one.
 */
import type { Database } from './database.js'

export interface NoteText {
  readonly description: string
  readonly tags: readonly string[]
}

/** By model; those without one are left out. */
export async function findNotes(db: Database, ids: readonly string[]): Promise<ReadonlyMap<string, NoteText>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('model_notes')
    .selectAll()
    .where('model_id', 'in', [...ids])
    .execute()
  return new Map(
    rows.map(({ model_id: id, description, tags }) => [id, { description, tags: JSON.parse(tags) as string[] }]),
  )
}

/** In place of the one there was; an empty one is none. */
export async function setNote(db: Database, modelId: string, { description, tags }: NoteText): Promise<void> {
  await db.deleteFrom('model_notes').where('model_id', '=', modelId).execute()
  if (description === '' && tags.length === 0) return
  await db
    .insertInto('model_notes')
    .values({ model_id: modelId, description, tags: JSON.stringify(tags) })
    .execute()
}
