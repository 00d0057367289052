/**
 * A training file of the marks of a model, stored like an upload.
 *
 * Marks are read in pages, and of those that wait for a partner ids alone are held.
 */
import { createHash } from 'node:crypto'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import {
  isConversationForm,
  MARK_LEFT_OUT,
  type MarkForm,
  type MarkLeftOut,
} from '#contract/wire/training/mark-words.js'
import type { FileFromMarks, FileFromMarksRequest } from '#contract/wire/training/marks.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { FileService } from '#service/operations/files.js'
import { requireModel } from '#service/operations/models/models.js'
import { isSameAnswer, toDpoRows, toPairRow, toSftRow } from './mark-rows.js'
import { findMark, type MarkRecord, marksAfter } from './storage/marks.js'

interface MarksFileService {
  /** @throws {InvalidRequestError} `no_marks` where no row comes of them */
  create(principal: Principal, request: FileFromMarksRequest, idempotencyKey: string | null): Promise<FileFromMarks>
}

/** So few, because a mark may have 256 KiB. */
const PAGE = 10

interface Tally {
  rows: number
  marks: number
  readonly leftOut: Map<MarkLeftOut, number>
}

export function createMarksFileService(
  context: Pick<ServiceContext, 'db'>,
  { files }: { readonly files: Pick<FileService, 'upload'> },
): MarksFileService {
  const { db } = context

  async function* readMarks(modelId: string): AsyncGenerator<MarkRecord> {
    let id: string | null = null
    for (;;) {
      const page: readonly MarkRecord[] = await marksAfter(db, modelId, { id, limit: PAGE })
      yield* page
      id = page.at(-1)?.id ?? null
      if (id === null) return
    }
  }

  async function* toRows(modelId: string, form: MarkForm, tally: Tally): AsyncGenerator<JsonObject> {
    const isConversation = isConversationForm(form)
    const waiting = createWaiting()
    /** The first that is still what it was: marks may be deleted and changed while they are read. */
    async function findPartner(mark: MarkRecord): Promise<MarkRecord | null> {
      for (let id = waiting.meet(mark); id !== null; id = waiting.meet(mark)) {
        const partner = await findMark(db, modelId, id)
        if (partner !== null && partner.mark !== mark.mark) return partner
        count(tally, 'without_partner')
      }
      return null
    }
    for await (const mark of readMarks(modelId)) {
      tally.marks += 1
      if (isConversation) {
        const row = toSftRow(mark)
        if (row === null) count(tally, 'bad_without_edit')
        else yield row
        continue
      }
      const rows = toDpoRows(mark)
      yield* rows
      if (rows.length > 0) continue
      const partner = await findPartner(mark)
      if (partner === null) continue
      const [good, bad] = mark.mark === 'good' ? [mark, partner] : [partner, mark]
      if (isSameAnswer(good.answer, bad.answer)) count(tally, 'equal_answers', 2)
      else yield toPairRow(good, bad)
    }
    count(tally, 'without_partner', waiting.count())
  }

  return {
    create: async (principal, { model_id: modelId, form }, idempotencyKey) => {
      const model = await requireModel(context, principal, modelId)
      const tally: Tally = { rows: 0, marks: 0, leftOut: new Map() }
      async function* bytes(): AsyncGenerator<Uint8Array> {
        for await (const row of toRows(model.id, form, tally)) {
          tally.rows += 1
          yield Buffer.from(`${JSON.stringify(row)}\n`)
        }
        if (tally.rows === 0) throw noRows(form, tally)
      }
      const describe = async () => ({
        filename: `marks-${model.name}-${form}.jsonl`,
        purpose: 'fine-tune',
        artifact: null,
      })
      const file = await files.upload(principal, bytes(), describe, idempotencyKey)
      const leftOut = MARK_LEFT_OUT.flatMap((reason) => {
        const number = tally.leftOut.get(reason) ?? 0
        return number === 0 ? [] : [{ reason, count: number }]
      })
      return { ...file, rows: tally.rows, marks: tally.marks, left_out: leftOut }
    },
  }
}

function count(tally: Tally, reason: MarkLeftOut, more = 1): void {
  tally.leftOut.set(reason, (tally.leftOut.get(reason) ?? 0) + more)
}

function noRows(form: MarkForm, { marks }: Tally): InvalidRequestError {
  const wanted = isConversationForm(form)
    ? 'mark an answer good, or a bad one with what it should have said'
    : 'edit a bad answer, compare two, or mark a good and a bad answer to one prompt'
  const has = marks === 0 ? 'the model has no marks' : `no row of the form ${form} comes of the ${marks} marks`
  return new InvalidRequestError('no_marks', has, { hint: wanted })
}

/** Good and bad answers to one prompt, the first with the first. */
function createWaiting() {
  const open = new Map<string, { readonly mark: string; readonly ids: string[] }>()
  return {
    /** @returns the partner of a mark; null where it waits for one */
    meet({ id, mark, prompt, tools }: MarkRecord): string | null {
      const key = createHash('sha256')
        .update(JSON.stringify([prompt, tools]))
        .digest('base64')
      const others = open.get(key)
      if (others === undefined) open.set(key, { mark, ids: [id] })
      else if (others.mark === mark) others.ids.push(id)
      else {
        const partner = others.ids.shift() ?? null
        if (others.ids.length === 0) open.delete(key)
        return partner
      }
      return null
    },
    count: () => [...open.values()].reduce((sum, { ids }) => sum + ids.length, 0),
  }
}
