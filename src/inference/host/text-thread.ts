/**
 * The thread of a host's large text work (`text-desk.ts`): loads the text model once, then answers tasks in order.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { toErrorMessage } from '#base/error-message.js'
import { lowerThreadPriority } from '#base/util/thread-priority.js'
import { loadTextModel } from '#model/text/text-model.js'
import type { FailedEvent, PromptInput, TextResult, TextTask } from './protocol.js'
import { preparePrompt, runTextTask } from './text-work.js'

/** Behind the threads that compute: running choices go before a long prompt. */
const NICENESS = 10

export interface TextThreadTask {
  readonly id: number
  readonly work:
    | TextTask
    | { readonly kind: 'prepare'; readonly input: PromptInput; readonly maxTokens: number | undefined }
}

export type TextThreadReply =
  | { readonly id: number; readonly result: TextResult }
  | { readonly id: number; readonly error: FailedEvent['error'] }

lowerThreadPriority(NICENESS)

const loading = loadTextModel(workerData as string)
// who asks hears of it
loading.catch(() => undefined)

async function answer({ id, work }: TextThreadTask): Promise<TextThreadReply> {
  try {
    const textModel = await loading
    if (work.kind !== 'prepare') return { id, result: runTextTask(textModel, work) }
    return { id, result: { ...preparePrompt(textModel, work.input, work.maxTokens), tokenStrings: [] } }
  } catch (error) {
    return { id, error: toErrorMessage(error, { message: 'text work failed unexpectedly' }) }
  }
}

parentPort?.on('message', async (task: TextThreadTask) => parentPort?.postMessage(await answer(task)))
