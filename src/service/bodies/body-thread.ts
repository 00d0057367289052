/**
 * One thread that reads bodies, started when first needed and ended when idle, so that its memory goes back.
 *
 * A body that exhausts the thread's memory ends the thread alone; what it was reading is refused, the next task starts
 * another.
 */
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { AppError } from '#base/errors.js'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import { packageRoot } from '#base/util/package-root.js'
import { fromPlainError, type GroupsTask, type ParseTask, type ThreadReply } from './thread-protocol.js'

export interface BodyThread {
  /** @throws {AppError} what the thread says, or `body_reader_failed` when it ends */
  run(task: Omit<ParseTask, 'id'> | Omit<GroupsTask, 'id'>): Promise<unknown>
  close(): Promise<void>
}

export interface BodyThreadOptions {
  /** Largest JavaScript heap, MB. */
  readonly maxHeapMb: number
  /** How far it stands behind the threads that compute, on Linux; 0 is not at all. */
  readonly niceness: number
}

/** Half of the default: values of a body live for one group of some megabytes, and what the thread once took it keeps. */
const YOUNG_MB = 24
/** A thread without work for this long ends. */
const IDLE_MS = 15_000

export function createBodyThread(options: BodyThreadOptions): BodyThread {
  const pending = new Map<number, Deferred<unknown>>()
  let worker: Worker | null = null
  let counter = 0
  let idle: NodeJS.Timeout | undefined
  let isClosed = false

  function start(): Worker {
    if (worker !== null) return worker
    const created = new Worker(pathToFileURL(`${packageRoot()}/dist/src/service/bodies/thread-main.js`), {
      resourceLimits: { maxOldGenerationSizeMb: options.maxHeapMb, maxYoungGenerationSizeMb: YOUNG_MB },
      workerData: { niceness: options.niceness },
      execArgv: [],
    })
    // it must not keep the process alive
    created.unref()
    created.on('message', (reply: ThreadReply) => {
      const task = pending.get(reply.id)
      pending.delete(reply.id)
      if (reply.type === 'done') task?.resolve(reply.value)
      else task?.reject(fromPlainError(reply.error))
      if (pending.size === 0) idle = setTimeout(() => void stop(created), IDLE_MS).unref()
    })
    const onEnd = (cause: unknown): void => {
      if (worker !== created) return
      worker = null
      const tasks = [...pending.values()]
      pending.clear()
      for (const task of tasks) task.reject(endedError(cause, tasks.length))
    }
    created.on('error', onEnd)
    created.on('exit', (code) => onEnd(new Error(`the thread ended with code ${code}`)))
    worker = created
    return created
  }

  async function stop(target: Worker): Promise<void> {
    if (worker === target) worker = null
    await target.terminate()
  }

  return {
    run: (task) => {
      if (isClosed) throw new AppError('unavailable', 'shutting_down', 'the server is shutting down')
      clearTimeout(idle)
      counter += 1
      const id = counter
      const deferred = createDeferred<unknown>()
      pending.set(id, deferred)
      const bytes = 'bytes' in task.source ? [task.source.bytes.buffer as ArrayBuffer] : []
      start().postMessage({ ...task, id }, bytes)
      return deferred.promise
    },
    close: async () => {
      isClosed = true
      clearTimeout(idle)
      const current = worker
      worker = null
      for (const task of pending.values()) {
        task.reject(new AppError('unavailable', 'shutting_down', 'the server is shutting down'))
      }
      pending.clear()
      await current?.terminate()
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
