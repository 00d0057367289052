/**
 * Inspects models in a thread of their own, one at a time: what a model file claims is untrusted, and reading a large one
 * takes seconds.
 */
import { AppError, shuttingDown, WeightsError } from '#base/errors/errors.js'
import { type AskedThread, createAskedThread } from '#base/processes/ask-thread.js'
import type { ModelFacts } from '#model/inspection/inspect.js'
import type { InspectionTask } from '#model/inspection/thread-main.js'

export type { ModelFacts } from '#model/inspection/inspect.js'
export type { LostToken } from '#model/inspection/lost-tokens.js'

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
  let current: AskedThread<InspectionTask, ModelFacts | null> | null = null
  let queue: Promise<unknown> = Promise.resolve()
  let isClosed = false

  function run(task: InspectionTask): Promise<ModelFacts | null> {
    const result = queue.then(() => start(task))
    queue = result.catch(() => undefined)
    return result
  }

  async function start(task: InspectionTask): Promise<ModelFacts | null> {
    if (isClosed) throw shuttingDown()
    const thread = createAskedThread<InspectionTask, ModelFacts | null>({
      entry: 'model/inspection/thread-main.js',
      thread: { resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB } },
      died: (cause) => new WeightsError('model_unreadable', `model "${task.path}" could not be read`, { cause }),
    })
    current = thread
    return await thread.ask(task).finally(() => thread.end())
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
      await current?.end(shuttingDown())
    },
  }
}
