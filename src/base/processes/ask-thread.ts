/**
 * Threads: how one is started, and a thread that answers any number of questions. Both sides of the exchange are here.
 *
 * A thread that dies, for example because its heap is full, fails the questions it still has; the next question starts a
 * new thread.
 */
import { pathToFileURL } from 'node:url'
import { parentPort, type TransferListItem, Worker, type WorkerOptions } from 'node:worker_threads'
import { type ErrorMessage, fromErrorMessage, toErrorMessage, type Unexpected } from '#base/errors/error-message.js'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import { bundlePath, type EntryPoint } from './entry.js'

export function startThread(entry: EntryPoint, options: Omit<WorkerOptions, 'execArgv'> = {}): Worker {
  // a process's own preloaded modules (its lifeline) are not a thread's business
  const thread = new Worker(pathToFileURL(bundlePath(entry)), { ...options, execArgv: [] })
  // it must not keep the process alive
  thread.unref()
  return thread
}

/** A question on its way. */
export interface ThreadQuestion<Question> {
  readonly id: number
  readonly question: Question
}

export type ThreadReply<Answer, Failure extends ErrorMessage = ErrorMessage> =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly error: Failure }

export interface AskedThread<Question, Answer> {
  /** @param transfer what is handed over and not copied */
  ask(question: Question, transfer?: readonly TransferListItem[]): Promise<Answer>
  /** Ends the thread. @param error what questions without an answer are told; default: that it died */
  end(error?: Error): Promise<void>
}

export interface AskedThreadOptions<Failure extends ErrorMessage> {
  readonly entry: EntryPoint
  readonly thread?: Omit<WorkerOptions, 'execArgv'>
  /** Without a question for so long it ends, and its memory goes back. Default: never. */
  readonly idleMs?: number
  /** The error of a thread that ended by itself. @param waiting how many questions it had */
  readonly died: (cause: unknown, waiting: number) => Error
  readonly toError?: (failure: Failure) => Error
}

/** A thread that is started when it is first asked. */
export function createAskedThread<Question, Answer, Failure extends ErrorMessage = ErrorMessage>(
  options: AskedThreadOptions<Failure>,
): AskedThread<Question, Answer> {
  const { died, idleMs, toError = fromErrorMessage } = options
  const waiting = new Map<number, Deferred<Answer>>()
  let thread: Worker | null = null
  let count = 0
  let idle: NodeJS.Timeout | undefined

  async function end(error: Error = died(null, waiting.size)): Promise<void> {
    clearTimeout(idle)
    const ending = thread
    thread = null
    for (const deferred of waiting.values()) deferred.reject(error)
    waiting.clear()
    await ending?.terminate()
  }

  function started(): Worker {
    if (thread !== null) return thread
    const worker = startThread(options.entry, options.thread)
    thread = worker
    const onEnd = (cause: unknown): void => {
      if (thread === worker) void end(died(cause, waiting.size))
    }
    worker.on('error', onEnd)
    worker.on('exit', (code) => onEnd(new Error(`the thread ended with code ${code}`)))
    worker.on('message', (reply: ThreadReply<Answer, Failure>) => {
      const deferred = waiting.get(reply.id)
      waiting.delete(reply.id)
      if ('error' in reply) deferred?.reject(toError(reply.error))
      else deferred?.resolve(reply.answer)
      if (waiting.size === 0 && idleMs !== undefined && thread === worker) idle = setTimeout(end, idleMs).unref()
    })
    return worker
  }

  return {
    ask: (question, transfer = []) => {
      clearTimeout(idle)
      const deferred = createDeferred<Answer>()
      const id = count++
      waiting.set(id, deferred)
      started().postMessage({ id, question } satisfies ThreadQuestion<Question>, transfer)
      return deferred.promise
    },
    end,
  }
}

/** The thread's side: answers each question. @param transferOf what of an answer is handed over and not copied */
export function answerThread<Question, Answer>(
  work: (question: Question) => Answer | Promise<Answer>,
  { transferOf, ...unexpected }: Unexpected & { readonly transferOf?: (answer: Answer) => TransferListItem[] } = {},
): void {
  const port = parentPort
  port?.on('message', async ({ id, question }: ThreadQuestion<Question>) => {
    try {
      const answer = await work(question)
      port.postMessage({ id, answer }, transferOf?.(answer))
    } catch (error) {
      port.postMessage({ id, error: toErrorMessage(error, unexpected) })
    }
  })
}
