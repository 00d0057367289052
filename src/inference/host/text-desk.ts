/**
 * Where a host does its text work: small pieces at once, large ones in a thread, so that a long conversation does not hold up
 * the steps of running choices.
 *
 * The thread is started for the first large piece and has a text model of its own. What takes the caller less than a step is
 * done in place: a thread's answer would wait for the step that runs.
 *
 * Templates that requests bring have another thread, one at a time and by turns of the keys: what takes too long there ends with
 * the thread, by a timer outside of it, and nobody else's work with it.
 */
import { InvalidRequestError, RuntimeError } from '#base/errors/errors.js'
import { createAskedThread } from '#base/processes/ask-thread.js'
import { createTurns } from '#base/util/turns.js'
import type { TextModel } from '#model/text/text-model.js'
import type { PromptInput, TextResult, TextTask } from './protocol.js'
import type { TextWork } from './text-thread.js'
import { type PreparedPrompt, preparePrompt, runTextTask, textSize } from './text-work.js'

/** Rendering and tokenizing this much takes some milliseconds. UTF-16 units. */
const SMALL_TEXT = 16_384
/** For a template of a request: some times the processor time that a rendering may take, for the machine may be busy. */
const FOREIGN_MS = 30_000
/** Without a template of a request for so long its thread ends. */
const FOREIGN_IDLE_MS = 60_000
/** Of V8, far above what a rendering's own meter allows. */
const FOREIGN_HEAP_MB = 2048
const FOREIGN_TURNS = { what: 'chat templates of requests', mostWaiting: 128, mostOfOneKey: 32 }

/** Whose request it is; absent: nobody's in particular. */
interface Asker {
  readonly keyId?: string
}

export interface TextDesk {
  /** As `preparePrompt`. */
  prepare(input: PromptInput & Asker, maxTokens?: number): PreparedPrompt | Promise<PreparedPrompt>
  /** As `runTextTask`. */
  run(task: TextTask): TextResult | Promise<TextResult>
}

export interface TextDeskOptions {
  readonly sourcePath: string
  /** Work up to this size is done in place. */
  readonly smallText?: number
  /** How long a request's own template may take; for tests. */
  readonly foreignMs?: number
}

export function createTextDesk(textModel: TextModel, options: TextDeskOptions): TextDesk {
  const smallText = options.smallText ?? SMALL_TEXT
  const thread = createAskedThread<TextWork, TextResult>({
    entry: 'inference/host/text-thread.js',
    thread: { workerData: options.sourcePath },
    died: (cause) => new RuntimeError('text_thread_failed', 'the thread that renders prompts ended', { cause }),
  })

  const askForeign = createForeignDesk(options)

  return {
    prepare: (input, maxTokens) => {
      if (isForeign(input)) return askForeign({ kind: 'prepare', input, maxTokens }, input.keyId)
      // tokens need no work, however many
      const isTokens = 'prompt' in input && 'tokenIds' in input.prompt
      const isSmall = isTokens || textSize(input, smallText) <= smallText
      return isSmall ? preparePrompt(textModel, input, maxTokens) : thread.ask({ kind: 'prepare', input, maxTokens })
    },
    run: (task) => {
      if (task.kind !== 'detokenize' && isForeign(task.input)) return askForeign(task)
      return textSize(task, smallText) <= smallText ? runTextTask(textModel, task) : thread.ask(task)
    },
  }
}

/** A template of a request's own may take its whole budget of time: it never runs between steps. */
function isForeign(input: PromptInput): boolean {
  return 'template' in input && (input.template.chatTemplate ?? null) !== null
}

/** Where templates of requests are rendered. */
function createForeignDesk({
  sourcePath,
  foreignMs = FOREIGN_MS,
}: TextDeskOptions): (work: TextWork, keyId?: string) => Promise<TextResult> {
  const tooMuch = (what: string, cause?: unknown): InvalidRequestError =>
    new InvalidRequestError('chat_template_budget', `chat template ${what}`, { param: 'chat_template', cause })
  const thread = createAskedThread<TextWork, TextResult>({
    entry: 'inference/host/text-thread.js',
    thread: { workerData: sourcePath, resourceLimits: { maxOldGenerationSizeMb: FOREIGN_HEAP_MB } },
    idleMs: FOREIGN_IDLE_MS,
    died: (cause) => tooMuch('ended the thread that rendered it', cause),
  })
  const turns = createTurns(FOREIGN_TURNS)
  const never = new AbortController().signal

  return (work, keyId = '') =>
    turns.take(keyId, never, async () => {
      // its start and its text model are not the template's time
      await thread.ask({ kind: 'detokenize', tokenIds: [] })
      const late = tooMuch(`takes too long: more than ${foreignMs / 1000} s`)
      const timer = setTimeout(() => void thread.end(late), foreignMs)
      try {
        return await thread.ask(work)
      } finally {
        clearTimeout(timer)
      }
    })
}
