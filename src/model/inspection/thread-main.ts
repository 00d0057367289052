/**
 * Entry of a thread that inspects a model, so that a large vocabulary, or a file whose head claims false sizes, does
 * not hold up the server's event loop.
 */
import { AppError, WeightsError } from '#base/errors/errors.js'
import { answerThread } from '#base/processes/ask-thread.js'
import { checkConfigFile, inspectModel, type ModelFacts } from './inspect.js'

/** What to look at. */
export type InspectionTask =
  | { readonly type: 'model'; readonly path: string; readonly hasDigest: boolean }
  | { readonly type: 'config'; readonly path: string }

/** @returns null for a check of a configuration, which has no facts */
async function inspect(task: InspectionTask): Promise<ModelFacts | null> {
  try {
    if (task.type === 'model') return await inspectModel(task.path, task)
    await checkConfigFile(task.path)
    return null
  } catch (cause) {
    if (cause instanceof AppError) throw cause
    // whatever a file makes us stumble over is the file's fault
    throw new WeightsError('model_unreadable', cause instanceof Error ? cause.message : String(cause), { cause })
  }
}

answerThread(inspect)
