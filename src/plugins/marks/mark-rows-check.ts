/**
 * Checks that a job can read the training rows of a mark: when the mark is made, so that the reader hears of it, not
 * when the file is made.
 */
import { type AppError, fullMessage, InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { findRowProblem } from '#formats/rows/examples/find-row-problem.js'
import { type Judged, toDpoRows, toSftRow } from './mark-rows.js'

/** @throws {InvalidRequestError} `mark_not_trainable`, in the words of the reader of rows */
export async function assertTrainable(mark: Judged): Promise<void> {
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
