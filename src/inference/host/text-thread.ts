/**
 * The thread of a host's large text work (`text-desk.ts`): loads the text model once, then answers tasks in order.
 */
import { workerData } from 'node:worker_threads'
import { answerThread } from '#base/processes/ask-thread.js'
import { lowerThreadPriority } from '#base/util/thread-priority.js'
import { loadTextModel } from '#model/text/text-model.js'
import type { PromptInput, TextResult, TextTask } from './protocol.js'
import { preparePrompt, runTextTask } from './text-work.js'

/** Behind the threads that compute: running choices go before a long prompt. */
const NICENESS = 10

/** What it is asked. */
export type TextWork =
  | TextTask
  | { readonly kind: 'prepare'; readonly input: PromptInput; readonly maxTokens: number | undefined }

lowerThreadPriority(NICENESS)

const loading = loadTextModel(workerData as string)
// who asks hears of it
loading.catch(() => undefined)

async function answer(work: TextWork): Promise<TextResult> {
  const textModel = await loading
  if (work.kind !== 'prepare') return runTextTask(textModel, work)
  return { ...preparePrompt(textModel, work.input, work.maxTokens), tokenStrings: [] }
}

answerThread(answer, { message: 'text work failed unexpectedly' })
