/**
 * What people write about their models: read, and written whole.
 */
import type { ModelNote } from '#contract/wire/models.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { findNotes, type NoteText, setNote } from '#service/storage/model-notes.js'
import type { Principal, ServiceContext } from '../context.js'
import { requireModel } from './models.js'

export interface ModelNotes {
  note(principal: Principal, id: string): Promise<ModelNote>
  setNote(principal: Principal, id: string, note: NoteText): Promise<ModelNote>
}

const NO_NOTE: NoteText = { description: '', tags: [] }

export function createModelNotes(context: Pick<ServiceContext, 'db'>): ModelNotes {
  const { db } = context
  return {
    note: async (principal, id) => {
      const model = await requireModel(context, principal, id)
      const { description, tags } = (await findNotes(db, [model.id])).get(model.id) ?? NO_NOTE
      return { model_id: model.id, description, tags: [...tags] }
    },
    setNote: async (principal, id, { description, tags }) => {
      const model = await requireModel(context, principal, id)
      await inTransaction(db, (transaction) => setNote(transaction, model.id, { description, tags }))
      return { model_id: model.id, description, tags: [...tags] }
    },
  }
}
