/**
 * Entry of a thread that inspects one model and ends: metadata of a large vocabulary, or of a file that lies, costs the server's
 * event loop nothing.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { type ErrorMessage, toErrorMessage } from '#base/error-message.js'
import { AppError, WeightsError } from '#base/errors.js'
import { checkConfigFile, inspectModel, type ModelFacts } from './inspect.js'

/** What to look at. */
export type InspectionTask =
  | { readonly type: 'model'; readonly path: string; readonly hasDigest: boolean }
  | { readonly type: 'config'; readonly path: string }

/** What comes back; a finished check of a configuration has no facts. */
export type InspectionReply =
  | { readonly type: 'done'; readonly facts: ModelFacts | null }
  | { readonly type: 'failed'; readonly error: ErrorMessage }

async function inspect(task: InspectionTask): Promise<InspectionReply> {
  try {
    if (task.type === 'model') return { type: 'done', facts: await inspectModel(task.path, task) }
    await checkConfigFile(task.path)
    return { type: 'done', facts: null }
  } catch (error) {
    if (error instanceof AppError) return { type: 'failed', error: toErrorMessage(error) }
    const reason = error instanceof Error ? error.message : String(error)
    // whatever a file makes us stumble over is the file's fault
    return { type: 'failed', error: toErrorMessage(new WeightsError('model_unreadable', reason, { cause: error })) }
  }
}

parentPort?.postMessage(await inspect(workerData as InspectionTask))
