/**
 * A child process that answers one question: it gets the question, reports progress, gives one answer or error, and ends.
 * Both sides of the exchange are here.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { type ErrorMessage, fromErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import { createDeferred } from '#base/util/deferred.js'
import { endOf } from './child.js'

type Message<Answer> =
  | { readonly type: 'progress' }
  | { readonly type: 'answer'; readonly answer: Answer }
  | { readonly type: 'failed'; readonly error: ErrorMessage }

export interface AskOptions {
  readonly onProgress?: () => void
  /** Hears first what goes wrong, also after the answer. */
  readonly onFailed?: (error: Error) => void
  /** The error of a process that ended by itself. @param how it did, as the end of a sentence about it */
  readonly died: (how: string, cause?: unknown) => Error
}

/** Asks a process that was just started. */
export function askProcess<Answer>(
  child: ChildProcess,
  question: object,
  { onProgress, onFailed, died }: AskOptions,
): { readonly answer: Promise<Answer>; readonly closed: Promise<void> } {
  const answer = createDeferred<Answer>()
  const closed = createDeferred<void>()
  // a refusal is told to whoever waits for it
  answer.promise.catch(() => undefined)
  const fail = (error: Error): void => {
    answer.reject(error)
    onFailed?.(error)
  }
  child.on('message', (message: Message<Answer>) => {
    if (message.type === 'progress') onProgress?.()
    else if (message.type === 'answer') answer.resolve(message.answer)
    else fail(fromErrorMessage(message.error))
  })
  child.on('error', (cause) => fail(died('could not be started', cause)))
  child.once('close', (code, signal) => {
    closed.resolve()
    if (code !== 0) fail(died(endOf(code, signal)))
    answer.reject(died('ended without an answer'))
  })
  child.send(question, () => undefined)
  return { answer: answer.promise, closed: closed.promise }
}

/** What a process that is asked can say; it ends when `work` does. */
export interface Asker<Answer> {
  progress(): void
  /** Resolves when it is on its way. */
  answer(answer: Answer): Promise<void>
}

/**
 * The child's side: takes the question, does the work, ends the process.
 *
 * @param unexpectedCode of errors that are not meant to be read
 */
export async function answerProcess<Question, Answer>(
  unexpectedCode: string,
  work: (question: Question, asker: Asker<Answer>) => Promise<void>,
): Promise<never> {
  // what it writes is in the data directory: its owner's alone
  process.umask(0o077)
  process.on('disconnect', () => process.exit(0))
  const say = (message: Message<Answer>): Promise<void> =>
    new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()))
  const [question] = (await once(process, 'message')) as [Question]
  try {
    await work(question, {
      progress: () => void say({ type: 'progress' }),
      answer: (answer) => say({ type: 'answer', answer }),
    })
    process.exit(0)
  } catch (error) {
    await say({ type: 'failed', error: toErrorMessage(error, { code: unexpectedCode }) })
    process.exit(1)
  }
}
