/**
 * Inspects models in a thread of their own, one at a time: what a model file claims is untrusted, and reading a large one
 * takes seconds.
 */
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { fromErrorMessage } from '#base/error-message.js'
import { AppError, WeightsError } from '#base/errors.js'
import type { ModelFacts } from '#model/inspection/inspect.js'
import type { InspectionReply, InspectionTask } from '#model/inspection/thread-main.js'
import { builtModule } from './entry.js'

export type { ModelFacts } from '#model/inspection/inspect.js'

export interface ModelInspector {
  /** @throws {WeightsError} what makes the model unusable, in the reader's words */
  inspect(path: string, options?: { readonly hasDigest?: boolean }): Promise<ModelFacts>
  /** Checks a `config.json` alone. @throws {WeightsError} why its model cannot be served */
  checkConfig(path: string): Promise<void>
  close(): Promise<void>
}

/** Metadata of the largest vocabularies need a tenth of this. */
const MAX_HEAP_MB = 2048

export function createModelInspector(): ModelInspector {
  let current: Worker | null = null
  let queue: Promise<unknown> = Promise.resolve()
  let isClosed = false

  function run(task: InspectionTask): Promise<ModelFacts | null> {
    const result = queue.then(() => start(task))
    queue = result.catch(() => undefined)
    return result
  }

  async function start(task: InspectionTask): Promise<ModelFacts | null> {
    if (isClosed) throw new AppError('unavailable', 'shutting_down', 'the server is shutting down')
    const worker = new Worker(pathToFileURL(builtModule('model/inspection/thread-main.js')), {
      workerData: task,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
      execArgv: [],
    })
    worker.unref()
    current = worker
    try {
      const reply = await new Promise<InspectionReply>((resolve, reject) => {
        worker.once('message', resolve)
        worker.once('error', reject)
        worker.once('exit', () => reject(new Error('the thread ended without an answer')))
      })
      if (reply.type === 'done') return reply.facts
      throw fromErrorMessage(reply.error)
    } catch (cause) {
      if (cause instanceof AppError) throw cause
      throw new WeightsError('model_unreadable', `model "${task.path}" could not be read`, { cause })
    } finally {
      current = null
      await worker.terminate()
    }
  }

  return {
    async inspect(path, options = {}) {
      const facts = await run({ type: 'model', path, hasDigest: options.hasDigest === true })
      if (facts === null) throw new AppError('internal', 'internal_error', 'an inspection came back without facts')
      return facts
    },
    async checkConfig(path) {
      await run({ type: 'config', path })
    },
    async close() {
      isClosed = true
      await current?.terminate()
    },
  }
}
