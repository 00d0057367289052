/**
 * A child process that answers a question: it gets the question, reports progress, gives one answer or error, and ends, or is
 * kept for the next one. Both sides of the exchange are here.
 */
import type { ChildProcess } from 'node:child_process'
import { on } from 'node:events'
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

/** Asks a process that was just started, or that has answered and is kept. @returns `leave`: nothing more is heard of it */
export function askProcess<Answer>(
  child: ChildProcess,
  question: object,
  { onProgress, onFailed, died }: AskOptions,
): { readonly answer: Promise<Answer>; readonly closed: Promise<void>; leave(): void } {
  const answer = createDeferred<Answer>()
  const closed = createDeferred<void>()
  // a refusal is told to whoever waits for it
  answer.promise.catch(() => undefined)
  const fail = (error: Error): void => {
    answer.reject(error)
    onFailed?.(error)
  }
  const onMessage = (message: Message<Answer>): void => {
    if (message.type === 'progress') onProgress?.()
    else if (message.type === 'answer') answer.resolve(message.answer)
    else fail(fromErrorMessage(message.error))
  }
  const onError = (cause: Error): void => fail(died('could not be started', cause))
  const onClose = (code: number | null, signal: NodeJS.Signals | null): void => {
    closed.resolve()
    if (code !== 0) fail(died(endOf(code, signal)))
    answer.reject(died('ended without an answer'))
  }
  child.on('message', onMessage).on('error', onError).once('close', onClose)
  child.send(question, () => undefined)
  const leave = (): void => {
    child.off('message', onMessage).off('error', onError).off('close', onClose)
  }
  return { answer: answer.promise, closed: closed.promise, leave }
}

/** What a process that is asked can say; it ends when `work` does. */
export interface Asker<Answer> {
  progress(): void
  /** Resolves when it is on its way. */
  answer(answer: Answer): Promise<void>
}

/**
 * The child's side: takes the question, does the work, ends the process. Work that comes to `next` has another question follow.
 *
 * @param unexpectedCode of errors that are not meant to be read
 */
export async function answerProcess<Question, Answer>(
  unexpectedCode: string,
  work: (question: Question, asker: Asker<Answer>) => Promise<unknown>,
): Promise<never> {
  // what it writes is in the data directory: its owner's alone
  process.umask(0o077)
  process.on('disconnect', () => process.exit(0))
  const say = (message: Message<Answer>): Promise<void> =>
    new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()))
  const asker: Asker<Answer> = {
    progress: () => void say({ type: 'progress' }),
    answer: (answer) => say({ type: 'answer', answer }),
  }
  try {
    // what comes while it works waits here
    for await (const [question] of on(process, 'message')) {
      if ((await work(question as Question, asker)) !== 'next') break
    }
    return process.exit(0)
  } catch (error) {
    await say({ type: 'failed', error: toErrorMessage(error, { code: unexpectedCode }) })
    return process.exit(1)
  }
}
