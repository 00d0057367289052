/**
 * Where a host does its text work: small pieces at once, large ones in a thread, so that a long conversation does not hold up
 * the steps of running choices.
 *
 * The thread is started for the first large piece and has a text model of its own. What takes the caller less than a step is
 * done in place: a thread's answer would wait for the step that runs.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { fromErrorMessage } from '#base/error-message.js'
import { RuntimeError } from '#base/errors.js'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import { packageRoot } from '#base/util/package-root.js'
import type { TextModel } from '#model/text/text-model.js'
import type { PromptInput, TextResult, TextTask } from './protocol.js'
import type { TextThreadReply, TextThreadTask } from './text-thread.js'
import { type PreparedPrompt, preparePrompt, runTextTask, textSize } from './text-work.js'

/** Rendering and tokenizing this much takes some milliseconds. UTF-16 units. */
const SMALL_TEXT = 16_384

export interface TextDesk {
  /** As `preparePrompt`. */
  prepare(input: PromptInput, maxTokens?: number): PreparedPrompt | Promise<PreparedPrompt>
  /** As `runTextTask`. */
  run(task: TextTask): TextResult | Promise<TextResult>
}

/** @param smallText work up to this size is done in place */
export function createTextDesk(
  textModel: TextModel,
  options: { readonly sourcePath: string; readonly smallText?: number },
): TextDesk {
  const smallText = options.smallText ?? SMALL_TEXT
  const waiting = new Map<number, Deferred<TextResult>>()
  let thread: Worker | null = null
  let count = 0

  function started(): Worker {
    if (thread !== null) return thread
    // threads always run the build in dist/, as child processes do
    const entry = pathToFileURL(join(packageRoot(), 'dist/src/inference/host/text-thread.js'))
    const worker = new Worker(entry, { workerData: options.sourcePath, execArgv: [] })
    worker.unref()
    thread = worker
    worker.on('message', (reply: TextThreadReply) => {
      const deferred = waiting.get(reply.id)
      waiting.delete(reply.id)
      if ('error' in reply) deferred?.reject(fromErrorMessage(reply.error))
      else deferred?.resolve(reply.result)
    })
    const onEnd = (cause?: unknown): void => {
      if (thread !== worker) return
      thread = null
      const error = new RuntimeError('text_thread_failed', 'the thread that renders prompts ended', { cause })
      for (const deferred of waiting.values()) deferred.reject(error)
      waiting.clear()
    }
    worker.once('error', onEnd)
    worker.once('exit', () => onEnd())
    return worker
  }

  function inThread(work: TextThreadTask['work']): Promise<TextResult> {
    const deferred = createDeferred<TextResult>()
    const id = count++
    waiting.set(id, deferred)
    started().postMessage({ id, work } satisfies TextThreadTask)
    return deferred.promise
  }

  return {
    prepare: (input, maxTokens) => {
      // tokens need no work, however many
      const isOurs = 'prompt' in input || (input.template.chatTemplate ?? null) === null
      const isTokens = 'prompt' in input && 'tokenIds' in input.prompt
      const isSmall = isOurs && (isTokens || textSize(input, smallText) <= smallText)
      return isSmall ? preparePrompt(textModel, input, maxTokens) : inThread({ kind: 'prepare', input, maxTokens })
    },
    run: (task) => (isOursAndSmall(task, smallText) ? runTextTask(textModel, task) : inThread(task)),
  }
}

/** A template of a request's own may take its whole budget of time: it never runs between steps. */
function isOursAndSmall(task: TextTask, smallText: number): boolean {
  const isForeign =
    task.kind !== 'detokenize' && 'template' in task.input && (task.input.template.chatTemplate ?? null) !== null
  return !isForeign && textSize(task, smallText) <= smallText
}
