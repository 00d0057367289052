/**
 * Answers of a batch on their way to the disk: a piece of some hundred at a time, of which a row says which lines they are.
 * What a row says is
 * there, and what none says is asked again: so no line is twice in the files, and none is lost.
 */
import { ConflictError } from '#base/errors/errors.js'
import type { ServiceContext } from '#service/operations/context.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { addUsage } from './batch-lines.js'
import { formatLines } from './line-set.js'
import { type Attempt, change, NO_USAGE, readAttempt } from './storage/batches.js'
import { insertPiece } from './storage/pieces.js'
import type { BatchUsage } from './wire.js'

interface BatchResult {
  readonly line: number
  /** As it stands in a file, with its line end. */
  readonly text: string
  readonly isError: boolean
  readonly usage: BatchUsage
}

interface BatchResults {
  /** Keeps an answer; the promise settles when there is room for another. */
  add(result: BatchResult): Promise<void>
  /** Writes what is there. @throws {ConflictError} `batch_taken_over` when another attempt has the batch */
  flush(): Promise<void>
}

/** A piece is written when it has so many answers, or so many characters. */
const PIECE_ANSWERS = 256
const PIECE_CHARACTERS = 8 * 1024 ** 2

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'ids'>

export function createBatchResults({ db, blobs, ids }: Context, attempt: Attempt): BatchResults {
  let held: BatchResult[] = []
  let characters = 0
  let writing: Promise<void> = Promise.resolve()

  async function put(results: readonly BatchResult[]): Promise<string | null> {
    if (results.length === 0) return null
    return (await blobs.put(results.map(({ text }) => Buffer.from(text)))).sha256
  }

  async function write(): Promise<void> {
    const results = held
    if (results.length === 0) return
    held = []
    characters = 0
    const [answers, errors] = [results.filter(({ isError }) => !isError), results.filter(({ isError }) => isError)]
    const lines = formatLines(results.map(({ line }) => line))
    const piece = { lines, outputSha256: await put(answers), errorSha256: await put(errors) }
    const id = ids.uuid()
    await inTransaction(db, async (transaction) => {
      const batch = await readAttempt(transaction, attempt)
      if (batch === null) throw takenOver(attempt.id)
      await change(transaction, batch, {
        completed: batch.completed + answers.length,
        failed: batch.failed + errors.length,
        usage: JSON.stringify(results.reduce((sum, { usage }) => addUsage(sum, usage), batch.usage ?? NO_USAGE)),
      })
      await insertPiece(transaction, attempt.id, id, piece)
    })
  }

  function flush(): Promise<void> {
    // one at a time; who comes behind a failure hears of it, too
    writing = writing.then(write)
    // it is thrown to whoever waits for it
    writing.catch(() => undefined)
    return writing
  }

  return {
    flush,
    add: async (result) => {
      held.push(result)
      characters += result.text.length
      if (held.length >= PIECE_ANSWERS || characters >= PIECE_CHARACTERS) await flush()
    },
  }
}

export function takenOver(id: string): ConflictError {
  return new ConflictError('batch_taken_over', `another server answers batch ${id} now`)
}
