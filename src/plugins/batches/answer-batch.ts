/**
 * Takes a batch from where it stands to its end: checks its lines, has each answered, joins the answers to files.
 */
import { createDeferred } from '#base/util/deferred.js'
import type { ServiceContext } from '#service/operations/context.js'
import type { FileService } from '#service/operations/files.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { type AskingParts, createAsking, principalOf } from './ask-line.js'
import {
  answerLine,
  type BatchLine,
  checkLines,
  expiredLine,
  type LineAnswer,
  openLines,
  usageOf,
} from './batch-lines.js'
import { createBatchResults, takenOver } from './batch-results.js'
import { readLineSet } from './line-set.js'
import { announceBatch, type BatchRecord, change, errorsText, readAttempt } from './storage/batches.js'
import { deletePieces, listPieces } from './storage/pieces.js'
import type { BatchesTable } from './storage/tables.js'

export type AnswerContext = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'requestSweep'>

export interface AnswerParts extends AskingParts {
  readonly files: Pick<FileService, 'upload'>
  /** Lines that may wait for their turn. */
  readonly mostWaiting: number
  /** How long an answer waits for others to be written with, and how soon a cancellation elsewhere is seen. Default 5 s */
  readonly flushMs?: number
}

interface Signals {
  /** Of the server. */
  readonly ending: AbortSignal
  /** Of this batch's answers: it was cancelled, or its time is over. */
  readonly stop: AbortController
}

export function createAnswering(context: AnswerContext, parts: AnswerParts) {
  const steps = createSteps(context)
  const answerLines = createLineAnswering(context, parts, steps)
  const finish = createFinish(context, parts, steps)

  return async function proceed(batch: BatchRecord, signals: Signals): Promise<void> {
    switch (batch.status) {
      case 'validating':
        return proceed(await steps.check(batch, signals), signals)
      case 'in_progress': {
        await answerLines(batch, signals)
        if (signals.ending.aborted) return
        const finalizing = { status: 'finalizing', finalizing_at_ms: context.clock.nowMs() }
        return proceed(await steps.move(batch, finalizing), signals)
      }
      case 'finalizing':
      case 'cancelling':
        if (!(await finish(batch, signals))) await proceed(await steps.reread(batch), signals)
        return
      default:
        // it has ended
        return
    }
  }
}

/** What all steps do with the row and the input of a batch. */
function createSteps({ db, blobs, clock, ids }: AnswerContext) {
  /** Changes the status of a batch. @returns the row; it may have been cancelled meanwhile instead. @throws `batch_taken_over` */
  async function move(batch: BatchRecord, values: Partial<BatchesTable>): Promise<BatchRecord> {
    return (await change(db, batch, values, batch.status)) ?? reread(batch)
  }

  async function reread(batch: BatchRecord): Promise<BatchRecord> {
    const now = await readAttempt(db, batch)
    if (now === null) throw takenOver(batch.id)
    return now
  }

  const isLate = ({ expiresAtMs }: BatchRecord): boolean => clock.nowMs() >= expiresAtMs
  /** Opened when the first of it is asked for, read for as long as the signal lets it. @throws the signal's reason */
  async function* readInput({ inputSha256 }: BatchRecord, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for await (const bytes of await blobs.openRead(inputSha256 ?? '')) {
      signal.throwIfAborted()
      yield bytes as Uint8Array
    }
  }

  async function check(batch: BatchRecord, { ending }: Signals): Promise<BatchRecord> {
    const { count, errors } = await checkLines(readInput(batch, ending), batch.endpoint)
    const nowMs = clock.nowMs()
    if (errors.length === 0) return move(batch, { status: 'in_progress', total: count, in_progress_at_ms: nowMs })
    const failed = { status: 'failed', errors: errorsText(errors), ended_at_ms: nowMs, input_sha256: null }
    const ended = await inTransaction(db, async (transaction) => {
      const now = await change(transaction, batch, failed, batch.status)
      if (now !== null) await announceBatch(transaction, ids, now)
      return now
    })
    return ended ?? reread(batch)
  }

  async function doneLines({ id }: BatchRecord) {
    return readLineSet((await listPieces(db, id)).map(({ lines }) => lines))
  }

  return { move, reread, isLate, readInput, check, doneLines }
}

type Steps = ReturnType<typeof createSteps>

/** Has lines answered, until all are, or the batch ends before. */
function createLineAnswering(context: AnswerContext, parts: AnswerParts, { isLate, readInput, doneLines }: Steps) {
  const { db } = context
  const { flushMs = 5000 } = parts
  const askLine = createAsking(context, parts, parts.mostWaiting)

  async function answerLines(batch: BatchRecord, { ending, stop }: Signals): Promise<void> {
    const done = await doneLines(batch)
    const signal = AbortSignal.any([ending, stop.signal])
    const results = createBatchResults(context, batch)
    const lines = openLines(readInput(batch, ending), { endpoint: batch.endpoint, isDone: done.has })
    const principal = principalOf(batch)
    const beat = async (): Promise<void> => {
      await results.flush()
      if (isLate(batch) || (await readAttempt(db, batch))?.status !== 'in_progress') stop.abort()
    }
    const failed = createDeferred<never>()
    failed.promise.catch(() => undefined)
    const fail = (error: unknown): void => {
      failed.reject(error)
      stop.abort()
    }
    const timer = setInterval(() => void beat().catch(fail), flushMs).unref()

    async function work(): Promise<void> {
      while (!signal.aborted && !isLate(batch)) {
        const isOver = await askLine.turn(batch.keyId, signal, async () => {
          const next = await lines.next()
          if (next.done === true) return true
          const said = await askLine.ask(principal, { batch, line: next.value, signal })
          if (said === null) return true
          await results.add(toResult(batch, next.value, said))
          return false
        })
        if (isOver) return
      }
    }

    try {
      await Promise.all(Array.from({ length: parts.atOnce }, () => work().catch(fail)))
      if (!ending.aborted) await Promise.race([failed.promise, results.flush()])
      else await results.flush()
    } finally {
      clearInterval(timer)
      await lines.return(undefined)
    }
  }

  return answerLines
}

/** Joins what is answered to files, and ends the batch. */
function createFinish(context: AnswerContext, parts: AnswerParts, { readInput, doneLines }: Steps) {
  const { db, blobs, clock } = context

  /** @returns whether it has ended; false: it was cancelled meanwhile */
  async function finish(batch: BatchRecord, { ending }: Signals): Promise<boolean> {
    const pieces = await listPieces(db, batch.id)
    const isCancelled = batch.status === 'cancelling'
    const isExpired = !isCancelled && batch.completed + batch.failed < batch.total
    const done = isExpired ? await doneLines(batch) : null
    const save = async (name: string, digests: readonly (string | null)[], unanswered: boolean) => {
      const present = digests.filter((digest) => digest !== null)
      if (present.length === 0 && !unanswered) return null
      async function* bytes(): AsyncGenerator<Uint8Array> {
        for (const digest of present) yield* await blobs.openRead(digest)
        if (!unanswered || done === null) return
        const rest = openLines(readInput(batch, ending), { endpoint: batch.endpoint, isDone: done.has })
        for await (const line of rest) yield Buffer.from(expiredLine(batch.id, line))
      }
      const fields = { filename: `${batch.id}_${name}.jsonl`, purpose: 'batch_output', artifact: null }
      // no header holds a line break: joined twice it is one file
      const key = `batch\n${batch.id}\n${name}${unanswered ? '\nexpired' : ''}`
      return (await parts.files.upload(principalOf(batch), bytes(), async () => fields, key)).id
    }
    const outputFileId = await save(
      'output',
      pieces.map(({ outputSha256 }) => outputSha256),
      false,
    )
    const errorFileId = await save(
      'error',
      pieces.map(({ errorSha256 }) => errorSha256),
      isExpired,
    )
    const ended = {
      output_file_id: outputFileId,
      error_file_id: errorFileId,
      ended_at_ms: clock.nowMs(),
      input_sha256: null,
    }
    const status = isCancelled ? 'cancelled' : isExpired ? 'expired' : 'completed'
    const isOver = await inTransaction(db, async (transaction) => {
      const now = await change(transaction, batch, { ...ended, status }, batch.status)
      if (now === null) return false
      await announceBatch(transaction, context.ids, now)
      await deletePieces(transaction, batch.id)
      return true
    })
    if (isOver) context.requestSweep()
    return isOver
  }

  return finish
}

function toResult(batch: BatchRecord, line: BatchLine, said: LineAnswer) {
  const isError = said.status >= 300
  const usage = usageOf(isError ? null : JSON.parse(said.body))
  return { line: line.number, text: answerLine(batch.id, line, said), isError, usage }
}
