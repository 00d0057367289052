/**
 * Where a host does its text work: small pieces at once, large ones in a thread, so that a long conversation does not hold up
 * the steps of running choices.
 *
 * The thread is started for the first large piece and has a text model of its own. What takes the caller less than a step is
 * done in place: a thread's answer would wait for the step that runs.
 */
import { RuntimeError } from '#base/errors/errors.js'
import { createAskedThread } from '#base/processes/ask-thread.js'
import type { TextModel } from '#model/text/text-model.js'
import type { PromptInput, TextResult, TextTask } from './protocol.js'
import type { TextWork } from './text-thread.js'
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
  const thread = createAskedThread<TextWork, TextResult>({
    module: 'inference/host/text-thread.js',
    thread: { workerData: options.sourcePath },
    died: (cause) => new RuntimeError('text_thread_failed', 'the thread that renders prompts ended', { cause }),
  })

  return {
    prepare: (input, maxTokens) => {
      // tokens need no work, however many
      const isOurs = 'prompt' in input || (input.template.chatTemplate ?? null) === null
      const isTokens = 'prompt' in input && 'tokenIds' in input.prompt
      const isSmall = isOurs && (isTokens || textSize(input, smallText) <= smallText)
      return isSmall ? preparePrompt(textModel, input, maxTokens) : thread.ask({ kind: 'prepare', input, maxTokens })
    },
    run: (task) => (isOursAndSmall(task, smallText) ? runTextTask(textModel, task) : thread.ask(task)),
  }
}

/** A template of a request's own may take its whole budget of time: it never runs between steps. */
function isOursAndSmall(task: TextTask, smallText: number): boolean {
  const isForeign =
    task.kind !== 'detokenize' && 'template' in task.input && (task.input.template.chatTemplate ?? null) !== null
  return !isForeign && textSize(task, smallText) <= smallText
}
