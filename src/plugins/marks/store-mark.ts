/**
 * A mark on its way into the database and out of it: what it must keep to, and how it is shown.
 */
import { type AppError, ConflictError, fullMessage, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Mark, PutMarkRequest } from '#contract/wire/training/marks.js'
import { findRowProblem } from '#formats/rows/examples/find-row-problem.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import type { ServiceContext } from '#service/operations/context.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { assertSize } from './mark-content.js'
import { isSameAnswer, type Judged, toDpoRows, toSftRow } from './mark-rows.js'
import {
  countMarks,
  findMark,
  findMarkAt,
  type MarkContent,
  type MarkRecord,
  type NewMark,
  putMark,
} from './storage/marks.js'

// Checks that a job can read the training rows of a mark: when the mark is made, so that the reader hears of it, not
// when the file is made.

/** @throws {InvalidRequestError} `mark_not_trainable`, in the words of the reader of rows */
async function assertTrainable(mark: Judged): Promise<void> {
  // a bad answer is learned by nobody, and may become one half of a pair
  const own = toSftRow({ ...mark, mark: 'good' })
  for (const row of [...(own === null ? [] : [own]), ...toDpoRows(mark)]) {
    const problem = await problemOf(row)
    if (problem === null) continue
    throw new InvalidRequestError('mark_not_trainable', `no job reads a row of it: ${fullMessage(problem)}`)
  }
}

function problemOf(row: JsonObject): Promise<AppError | null> {
  return findRowProblem(async () => oneLine(row))
}

async function* oneLine(row: JsonObject): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`${JSON.stringify(row)}\n`)
}

/** Marks of one model: a training file of all of them is made at once. */
const MAX_MARKS = 10_000

/**
 * Stores a mark, or what is said anew in the place of the one on the same trajectory.
 *
 * @param repeat a key that may have made it before
 * @throws {ConflictError} `too_many_marks`; {NotFoundError} `model_not_found`
 */
export async function storeMark(
  { db, ids }: Pick<ServiceContext, 'db' | 'ids'>,
  mark: Omit<NewMark, 'id'>,
  repeat: IdempotencyScope | null = null,
): Promise<Mark> {
  assertSize(mark)
  await assertTrainable(mark)
  const digest = digestOf(mark)
  const made = ids.uuid()
  const stored = await inTransaction(db, async (transaction) => {
    const id = repeat === null ? null : await findIdempotent(transaction, repeat, digest)
    const same = id === null ? null : await findMark(transaction, mark.modelId, id)
    if (same !== null) return same
    const before = mark.sourceId === null ? null : await findMarkAt(transaction, mark.modelId, mark)
    if (before === null && (await countMarks(transaction, mark.modelId)) >= MAX_MARKS) throw tooMany()
    await putMark(transaction, { ...mark, id: before?.id ?? made })
    if (repeat !== null) await rememberIdempotent(transaction, repeat, digest, made)
    return findMark(transaction, mark.modelId, before?.id ?? made)
  })
  if (stored === null) throw new NotFoundError('model_not_found', 'the model was deleted')
  return toWireMark(stored)
}

/** @throws {InvalidRequestError} `needless_edit` */
export function assertEdit({ mark, edited }: Pick<PutMarkRequest, 'mark' | 'edited'>): void {
  if (edited == null || mark === 'bad') return
  throw new InvalidRequestError('needless_edit', 'edited is what should have been said instead, and the mark is good', {
    param: 'edited',
    hint: 'mark the answer bad to teach the edited one in its place, or leave edited out',
  })
}

/** @throws {InvalidRequestError} `different_prompts`, `equal_answers` */
export function assertComparable(
  own: Pick<MarkContent, 'prompt' | 'answer'> & { readonly other: readonly JsonObject[] },
  prompt: readonly JsonObject[],
  param: string,
): void {
  if (JSON.stringify(own.prompt) !== JSON.stringify(prompt)) {
    throw new InvalidRequestError('different_prompts', `${param} names an answer to something else`, {
      param,
      hint: 'a preference is between two answers to the same prompt',
    })
  }
  if (!isSameAnswer(own.answer, own.other)) return
  throw new InvalidRequestError('equal_answers', `${param} names an answer that says the same: nothing is preferred`, {
    param,
  })
}

function tooMany(): ConflictError {
  return new ConflictError('too_many_marks', `a model may have ${MAX_MARKS} marks`, {
    hint: 'make a file of them (POST /v1/files/from-marks) and delete some',
  })
}

/** Stored messages are parsed JSON, as the wire has it. */
export function toWireMark(mark: MarkRecord): Mark {
  const isJob = mark.source === 'training_job'
  return {
    id: mark.id,
    object: 'mark',
    model_id: mark.modelId,
    mark: mark.mark,
    source: mark.source,
    training_job_id: isJob ? mark.sourceId : null,
    log_id: mark.source === 'log' ? mark.sourceId : null,
    group: mark.group,
    trajectory: mark.trajectory,
    pair_with: mark.pairWith,
    step: mark.step,
    prompt: mark.prompt as Mark['prompt'],
    answer: mark.answer as Mark['answer'],
    edited: mark.edited,
    other: mark.other as Mark['other'],
    tools: mark.tools as Mark['tools'],
    note: mark.note,
    created_at: new Date(mark.createdAtMs).toISOString(),
    updated_at: new Date(mark.updatedAtMs).toISOString(),
  }
}
