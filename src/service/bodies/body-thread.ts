/**
 * One thread that reads bodies, started when first needed and ended when idle, so that its memory goes back.
 *
 * A body that exhausts the thread's memory ends the thread alone; what it was reading is refused, the next task starts
 * another.
 */
import { AppError, shuttingDown } from '#base/errors/errors.js'
import { createAskedThread } from '#base/processes/ask-thread.js'
import type { EntryPoint } from '#base/processes/entry.js'
import { fromPlainError, type PlainError, type ThreadTask } from './thread-protocol.js'

export interface BodyThread {
  /** @throws {AppError} what the thread says, or `body_reader_failed` when it ends */
  run(task: ThreadTask): Promise<unknown>
  close(): Promise<void>
}

export interface BodyThreadOptions {
  /** Largest JavaScript heap, MB. */
  readonly maxHeapMb: number
  /** How far it stands behind the threads that compute, on Linux; 0 is not at all. */
  readonly niceness: number
  /** Of plugins that are no part of this package. */
  readonly pluginFiles: readonly string[]
}

/** Half of the default: values of a body live for one group of some megabytes, and what the thread once took it keeps. */
const YOUNG_MB = 24
/** A thread without work for this long ends. */
const IDLE_MS = 15_000

export function createBodyThread(entry: EntryPoint, options: BodyThreadOptions): BodyThread {
  let isClosed = false
  const thread = createAskedThread<ThreadTask, unknown, PlainError>({
    entry,
    thread: {
      resourceLimits: { maxOldGenerationSizeMb: options.maxHeapMb, maxYoungGenerationSizeMb: YOUNG_MB },
      workerData: { niceness: options.niceness, pluginFiles: options.pluginFiles },
    },
    idleMs: IDLE_MS,
    died: endedError,
    toError: fromPlainError,
  })
  return {
    run: async (task) => {
      if (isClosed) throw shuttingDown()
      return thread.ask(task, 'bytes' in task.source ? [task.source.bytes.buffer as ArrayBuffer] : [])
    },
    close: () => {
      isClosed = true
      return thread.end(shuttingDown())
    },
  }
}

function endedError(cause: unknown, taskCount: number): AppError {
  const isMemory = cause instanceof Error && 'code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY'
  // alone in the thread, it was this body
  if (isMemory && taskCount === 1) {
    return new AppError('too_large', 'request_too_large', 'the body needs more memory than one request may use', {
      hint: 'send it in several requests',
      cause,
    })
  }
  return new AppError('unavailable', 'body_reader_failed', 'the thread that read the body ended', {
    hint: 'send the request again',
    cause,
  })
}
