/**
 * What Play asks for: its settings as the address has them, the conversation so far, and the body of the request. Pure.
 */
import type { ChoiceLogprobs } from '#contract/wire/chat-completions.js'

export interface ToolCall {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

export interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string | null
  readonly tool_calls?: readonly ToolCall[]
  readonly tool_call_id?: string
}

export const TOOL_CHOICES = ['auto', 'required', 'none'] as const
export const FORMATS = ['text', 'json_object', 'json_schema'] as const
/** Alternatives that are asked for beside each token. */
const ALTERNATIVES = 5

/** The settings of Play, each under its name in the address. */
export interface PlaySettings {
  readonly system: string
  /** Null, and `top_p` too: as the model asks for (`samplingOf`). */
  readonly temperature: number | null
  readonly top_p: number | null
  /** Most tokens of an answer. */
  readonly max: number
  /** Null: another answer every time. */
  readonly seed: number | null
  /** JSON, as it was typed. */
  readonly tools: string
  readonly toolChoice: (typeof TOOL_CHOICES)[number]
  readonly format: (typeof FORMATS)[number]
  /** JSON, as it was typed. */
  readonly schema: string
  readonly hasLogprobs: boolean
}

/** @param read a setting of the address by its name; null where it has none */
export function readSettings(read: (name: string) => string | null): PlaySettings {
  const number = <T>(name: string, fallback: T): number | T => {
    const text = read(name)
    return text === null || text === '' || Number.isNaN(Number(text)) ? fallback : Number(text)
  }
  const word = <T extends string>(name: string, words: readonly [T, ...T[]]): T =>
    words.find((known) => known === read(name)) ?? words[0]
  return {
    system: read('system') ?? '',
    temperature: number('temperature', null),
    top_p: number('top_p', null),
    max: number('max', 256),
    seed: number('seed', null),
    tools: read('tools') ?? '',
    toolChoice: word('tool_choice', TOOL_CHOICES),
    format: word('format', FORMATS),
    schema: read('schema') ?? '',
    hasLogprobs: read('logprobs') === '1',
  }
}

/** Fields of a request: `temperature`, `top_p`, `top_k`; none: temperature 1 of all tokens. */
export type Sampling = Readonly<Record<string, number>>

/** What a request says of sampling. @param own of the model, where the settings say nothing */
export function samplingOf({ temperature, top_p }: PlaySettings, own: Sampling): Sampling {
  return temperature === null && top_p === null ? own : { temperature: temperature ?? 1, top_p: top_p ?? 1 }
}

/** The body of a chat request. */
export interface ChatBody {
  readonly model: string
  readonly messages: readonly Message[]
  readonly max_tokens: number
  readonly [name: string]: unknown
}

/** @throws {SyntaxError} when tools or schema are not what they must be; the message names which */
export function toBody(
  model: string,
  messages: readonly Message[],
  settings: PlaySettings,
  own: Sampling = {},
): ChatBody {
  const { system, max, seed, toolChoice, format, hasLogprobs } = settings
  const tools = readTools(settings.tools)
  return {
    model,
    messages: [...(system === '' ? [] : [{ role: 'system' as const, content: system }]), ...messages],
    ...samplingOf(settings, own),
    max_tokens: max,
    ...(seed === null ? {} : { seed }),
    ...(tools.length === 0 ? {} : { tools, ...(toolChoice === 'auto' ? {} : { tool_choice: toolChoice }) }),
    ...(format === 'json_object' ? { response_format: { type: 'json_object' } } : {}),
    ...(format === 'json_schema'
      ? {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'answer', strict: true, schema: readSchema(settings.schema) },
          },
        }
      : {}),
    ...(hasLogprobs ? { logprobs: true, top_logprobs: ALTERNATIVES } : {}),
  }
}

/** What is wrong with the settings, as a sentence; null: nothing. */
export function problemOf(settings: PlaySettings): string | null {
  try {
    toBody('', [], settings)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function readTools(text: string): readonly object[] {
  if (text.trim() === '') return []
  const tools = readJson('Tools', text)
  const isTool = (tool: unknown): boolean => {
    const named = (tool as { readonly function?: { readonly name?: unknown } | null } | null)?.function
    return typeof named?.name === 'string'
  }
  if (Array.isArray(tools) && tools.every(isTool)) return tools as object[]
  throw new SyntaxError('Tools: a JSON array of {"type": "function", "function": {"name": …}} was expected.')
}

function readSchema(text: string): object {
  const schema = text.trim() === '' ? null : readJson('Schema', text)
  if (typeof schema === 'object' && schema !== null && !Array.isArray(schema)) return schema
  throw new SyntaxError('Schema: a JSON schema was expected, such as {"type": "object"}.')
}

function readJson(title: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new SyntaxError(`${title}: no JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

export type TokenLogprob = NonNullable<ChoiceLogprobs['content']>[number]

/** An answer as far as it has come. */
export interface Answer {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
  /** Of each token, where they were asked for; the same array grows. */
  readonly logprobs: readonly TokenLogprob[]
  /** Which those are, where they are not simply the model's. */
  readonly shownAs: string | null
  readonly tokens: number | null
  /** Per second, from the first text to the last. */
  readonly speed: number | null
  readonly finish: string | null
  /** What of the schema it violates. */
  readonly violations: readonly string[]
  /** Which weights answered. */
  readonly fingerprint: string | null
  /** Name of the model, as the server has it. */
  readonly model: string | null
}

export const NO_ANSWER: Answer = {
  text: '',
  reasoning: '',
  calls: [],
  logprobs: [],
  shownAs: null,
  tokens: null,
  speed: null,
  finish: null,
  violations: [],
  fingerprint: null,
  model: null,
}

/** What was said, and the answer to it. */
export interface Said {
  /** A message, or the results of the calls before. */
  readonly asked: readonly Message[]
  readonly answer: Answer
}

/** The conversation so far. What got no answer at all was not said. */
export function toMessages(turns: readonly Said[]): readonly Message[] {
  return turns
    .filter(({ answer }) => answer.text !== '' || answer.calls.length > 0 || answer.finish !== null)
    .flatMap(({ asked, answer }): readonly Message[] => [
      ...asked,
      {
        role: 'assistant',
        content: answer.text === '' && answer.calls.length > 0 ? null : answer.text,
        ...(answer.calls.length > 0 ? { tool_calls: answer.calls } : {}),
      },
    ])
}
