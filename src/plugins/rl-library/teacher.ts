/**
 * A teacher: a stronger model that answers the prompts a small one is to learn, behind any server of the OpenAI chat format.
 *
 * Its answers are examples (sequence-level distillation, arXiv:1606.07947): `model.trainSft(await writeExamples(prompts, teacher))`. A
 * teacher that refuses all ends the run with its reason; one that is busy or away is asked again, and what still fails is left out and told
 * of, as is a prompt that it refuses.
 */
import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import { createHttp } from '#sdk/client/http.js'
import type { Fetch } from '#sdk/client/light-fetch.js'
import type { Message } from '#sdk/rl/trajectory.js'
import type { Conversation } from './model.js'

export interface TeacherOptions {
  /** With its version, as OpenAI clients take it: `https://api.openai.com/v1`. */
  readonly baseURL: string
  readonly apiKey: string | null
  readonly model: string
  /**
   * A system message that only the teacher sees: what it is told, the small model learns to do untold. It stands before a prompt's own
   * one, in the same message.
   */
  readonly system?: string
  /** More fields of each request, for example `{ temperature: 0 }`. */
  readonly body?: JsonObject
  readonly fetch?: Fetch
}

/** What a teacher said. */
export interface TeacherAnswer {
  readonly text: string
  /** Whether a length limit ended it: half an answer is no example. */
  readonly isCut: boolean
}

export interface Teacher {
  /** As messages call it. */
  readonly name: string
  /** @throws {AppError} `teacher_refused` for what asking again does not mend; what the connection throws */
  answer(messages: readonly Message[], options?: { readonly signal?: AbortSignal | undefined }): Promise<TeacherAnswer>
}

/** Refusals that hold for every prompt: a wrong key, model or address. */
const OF_ALL: ReadonlySet<number> = new Set([401, 403, 404, 405])
/** Refusals of an option, which all prompts meet, or of one prompt that is too long or not to the teacher's liking. */
const OF_SOME: ReadonlySet<number> = new Set([400, 422])
/** Where so many are refused before any was answered, it is not the prompts. */
const ENOUGH_REFUSALS = 8

/** Creates the teacher; opens no connection. */
export function createTeacher(options: TeacherOptions): Teacher {
  const { baseURL, apiKey, model, system, body, fetch } = options
  const http = createHttp({ baseUrl: baseURL, apiKey, ...(fetch === undefined ? {} : { fetch }) })
  return teacherOf({
    name: `${model} at ${baseURL}`,
    hintOf: (status) => hintOf(status, baseURL),
    ask: async (messages, signal) => {
      const json = { model, messages: withSystem(messages, system), ...body }
      // a second answer does no harm
      const request = { method: 'POST', path: '/chat/completions', json, isLong: true, isRepeatable: true } as const
      return await http.json<unknown>({ ...request, signal })
    },
  })
}

/** A model or base model of a service as a teacher. @param options.model its name for requests, as `inferenceName()` says it */
export function createServedTeacher(
  client: Client,
  { model, system, body }: Pick<TeacherOptions, 'model' | 'system' | 'body'>,
): Teacher {
  return teacherOf({
    name: model,
    hintOf: () => 'trainyard models list shows what is served',
    ask: async (messages, signal) =>
      await client.chat.create({ model, messages: [...withSystem(messages, system)], ...body }, { signal }),
  })
}

function teacherOf(asked: {
  readonly name: string
  readonly hintOf: (status: number) => string
  readonly ask: (messages: readonly Message[], signal: AbortSignal | undefined) => Promise<unknown>
}): Teacher {
  const { name } = asked
  return {
    name,
    async answer(messages, { signal } = {}) {
      try {
        return readAnswer(await asked.ask(messages, signal), name)
      } catch (error) {
        if (!(error instanceof ApiError && (OF_ALL.has(error.status) || OF_SOME.has(error.status)))) throw error
        throw new AppError(error.category, 'teacher_refused', `the teacher ${name} refuses: ${error.message}`, {
          cause: error,
          hint: asked.hintOf(error.status),
        })
      }
    },
  }
}

function hintOf(status: number, baseURL: string): string {
  if (status === 401 || status === 403)
    return "is its key right, and allowed to use this model? It is not this service's key"
  if (status !== 404 && status !== 405) return 'a smaller limit of tokens, or no temperature, may be what it wants'
  return /\/v\d+\w*\/?$/.test(baseURL)
    ? 'is this a model that it serves?'
    : `is this the address with its version, such as ${baseURL.replace(/\/$/, '')}/v1, and a model that it serves?`
}

function withSystem(messages: readonly Message[], system: string | undefined): readonly Message[] {
  if (system === undefined) return messages
  const [first, ...rest] = messages
  // many chat templates take one system message, and only as the first
  if (first?.role !== 'system') return [{ role: 'system', content: system }, ...messages]
  const { content } = first
  const before = `${system}\n\n`
  const both = Array.isArray(content) ? [{ type: 'text', text: before }, ...content] : `${before}${content ?? ''}`
  return [{ ...first, content: both }, ...rest]
}

function readAnswer(response: unknown, name: string): TeacherAnswer {
  const { choices } = (response ?? {}) as { readonly choices?: readonly TeacherChoice[] }
  const choice = choices?.[0]
  const text = choice?.message?.content
  if (typeof text === 'string' && text.trim() !== '') return { text, isCut: choice?.finish_reason === 'length' }
  throw new AppError('internal', 'teacher_answer_empty', `the teacher ${name} answered without a text`, {
    hint: 'a model that thinks may have spent its tokens before it answered: raise the limit',
  })
}

interface TeacherChoice {
  readonly message?: { readonly content?: unknown }
  readonly finish_reason?: unknown
}

/** One answer of a teacher to one prompt. */
export interface Lesson extends TeacherAnswer {
  /** Index of the prompt, and of the answer to it. */
  readonly prompt: number
  readonly sample: number
}

export interface LessonOptions {
  /** Answers to each prompt, default 1. */
  readonly samples?: number
  /** Questions side by side, default 8. */
  readonly concurrency?: number
  readonly signal?: AbortSignal | undefined
  /** Answers that are there already, from an earlier run. */
  readonly has?: (prompt: number, sample: number) => boolean
  /** Told of each answer as it comes; awaited, so that it can be kept. What it throws ends the run. */
  readonly onLesson?: (lesson: Lesson) => Promise<void> | void
  /** Told of what failed after it was tried again. */
  readonly onFailure?: (failure: { readonly prompt: number; readonly error: unknown }) => void
}

/**
 * Asks a teacher all prompts, so many side by side.
 *
 * @returns what came, by prompt and sample
 * @throws {AppError} `teacher_refused` at once where it holds for all prompts; the last failure when nothing came at all; the signal's reason
 */
export async function askTeacher(
  prompts: readonly (readonly Message[])[],
  teacher: Teacher,
  options: LessonOptions = {},
): Promise<readonly Lesson[]> {
  const { samples = 1, concurrency = 8, has, onLesson, onFailure, signal } = options
  const waiting = prompts.flatMap((messages, prompt) =>
    Array.from({ length: samples }, (_, sample) => ({ messages, prompt, sample })).filter(
      (each) => has?.(each.prompt, each.sample) !== true,
    ),
  )
  const lessons: Lesson[] = []
  const ending = new AbortController()
  const both = signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal])
  const hadSome = waiting.length < prompts.length * samples
  let [next, refused, failed] = [0, 0, null as { readonly error: unknown } | null]
  async function work(): Promise<void> {
    for (let item = waiting[next]; item !== undefined; item = waiting[next]) {
      next += 1
      both.throwIfAborted()
      const { messages, prompt, sample } = item
      const said = await ask(messages, prompt)
      if (said === null) continue
      const lesson = { ...said, prompt, sample }
      lessons.push(lesson)
      await onLesson?.(lesson)
    }
  }
  /** Null for what failed, and was told of. */
  async function ask(messages: readonly Message[], prompt: number): Promise<TeacherAnswer | null> {
    try {
      return await teacher.answer(messages, { signal: both })
    } catch (error) {
      if (both.aborted || isFinal(error)) throw error
      refused += isRefusal(error) ? 1 : 0
      if (refused >= ENOUGH_REFUSALS && lessons.length === 0 && !hadSome) throw error
      failed = { error }
      onFailure?.({ prompt, error })
      return null
    }
  }
  const workers = Array.from({ length: Math.min(concurrency, waiting.length) }, () => work())
  try {
    await Promise.all(workers)
  } catch (error) {
    // the others are not left behind
    ending.abort(error)
    await Promise.allSettled(workers)
    throw error
  }
  const { error } = failed ?? {}
  // prompts that are refused every time do not keep the answers of an earlier run from being used
  if (lessons.length === 0 && error !== undefined && !(hadSome && isRefusal(error))) throw error
  return lessons.toSorted((a, b) => a.prompt - b.prompt || a.sample - b.sample)
}

/** What no other prompt would come out of better. */
function isFinal(error: unknown): boolean {
  return !(error instanceof AppError) || (error.code === 'teacher_refused' && !isRefusal(error))
}

/** Whether it may be for one prompt alone. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof AppError)) return false
  if (error.code !== 'teacher_refused') return error.category === 'invalid_request'
  return error.cause instanceof ApiError && OF_SOME.has(error.cause.status)
}

/**
 * Examples by a teacher: each prompt with each whole answer that is good enough.
 *
 * @param options.keep says whether an answer is one to learn from; default all
 * @example await model.trainSft(await writeExamples(mails, createTeacher({ baseURL, apiKey, model: 'gpt-5-mini' })))
 */
export async function writeExamples(
  prompts: readonly (readonly Message[])[],
  teacher: Teacher,
  options: LessonOptions & { readonly keep?: (answer: string, prompt: number) => boolean | Promise<boolean> } = {},
): Promise<Conversation[]> {
  const examples: Conversation[] = []
  for (const { prompt, text, isCut } of await askTeacher(prompts, teacher, options)) {
    if (isCut || (options.keep !== undefined && !(await options.keep(text, prompt)))) continue
    examples.push({ messages: [...(prompts[prompt] ?? []), { role: 'assistant', content: text }] })
  }
  return examples
}
