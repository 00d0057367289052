/**
 * The answer of an upstream as one JSON value in its own form, whether it came whole or as a stream, and what it says of its
 * tokens.
 *
 * Of chat the choices, of Anthropic's messages the content, of responses the output. A stream is put together here since a
 * secret may be cut by its parts. Formats: OpenAI's reference of chat completions and responses, Anthropic's of messages and
 * their streams.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { createEventReader } from '#sdk/client/sse.js'
import type { CallForm } from '../route.js'

/** What is kept of an answer. */
export interface ReadAnswer {
  readonly model: string | null
  readonly inputTokens: number | null
  readonly cachedTokens: number | null
  readonly outputTokens: number | null
  /** Null: it says nothing that could be kept. */
  readonly answer: JsonObject | null
}

type Draft = Record<string, JsonValue>

/** @param text of the whole body @throws {SyntaxError} for what is no JSON */
export function readAnswer(form: CallForm, text: string, isStream: boolean): ReadAnswer {
  const whole = isStream ? joinEvents(form, eventsOf(text)) : (JSON.parse(text) as JsonValue)
  if (!isJsonObject(whole)) return { model: null, ...NO_TOKENS, answer: null }
  const model = typeof whole['model'] === 'string' ? whole['model'] : null
  const tokens = tokensOf(form, objectOf(whole['usage']))
  const error = whole['error'] ?? null
  if (error !== null) return { model, ...tokens, answer: { error } }
  const kept = { chat: ['choices'], messages: ['content', 'stop_reason'], responses: ['output', 'status'] }[form]
  return { model, ...tokens, answer: Object.fromEntries(kept.map((name) => [name, whole[name] ?? null])) }
}

const NO_TOKENS = { inputTokens: null, cachedTokens: null, outputTokens: null }

function tokensOf(
  form: CallForm,
  usage: JsonObject,
): Pick<ReadAnswer, 'inputTokens' | 'cachedTokens' | 'outputTokens'> {
  const numberOf = (value: unknown): number | null => (Number.isSafeInteger(value) ? (value as number) : null)
  const read = numberOf(usage[form === 'chat' ? 'prompt_tokens' : 'input_tokens'])
  const outputTokens = numberOf(usage[form === 'chat' ? 'completion_tokens' : 'output_tokens'])
  if (form === 'messages') {
    // Anthropic counts what was read from the cache, and written to it, beside the others
    const cachedTokens = numberOf(usage['cache_read_input_tokens'])
    const written = numberOf(usage['cache_creation_input_tokens']) ?? 0
    return { inputTokens: read === null ? null : read + (cachedTokens ?? 0) + written, cachedTokens, outputTokens }
  }
  const details = objectOf(usage[form === 'chat' ? 'prompt_tokens_details' : 'input_tokens_details'])
  return { inputTokens: read, cachedTokens: numberOf(details['cached_tokens']), outputTokens }
}

function eventsOf(text: string): readonly JsonObject[] {
  const events: JsonObject[] = []
  const feed = createEventReader((data) => {
    // the end of OpenAI's streams, and what a cut has left of an event
    if (data === '[DONE]') return
    const event = JSON.parse(data) as JsonValue
    if (isJsonObject(event)) events.push(event)
  })
  feed(Buffer.from(text))
  return events
}

function joinEvents(form: CallForm, events: readonly JsonObject[]): JsonObject {
  const failed = events.find((event) => (event['error'] ?? null) !== null && event['type'] !== 'response.failed')
  if (failed !== undefined) return { error: failed['error'] ?? null }
  if (form === 'chat') return joinChat(events)
  return form === 'messages' ? joinMessage(events) : joinResponse(events)
}

/** The last event that ends a response holds all of it. */
function joinResponse(events: readonly JsonObject[]): JsonObject {
  const ends = ['response.completed', 'response.incomplete', 'response.failed']
  const last = events.findLast(({ type }) => ends.includes(String(type)))
  return objectOf(last?.['response'])
}

function joinChat(events: readonly JsonObject[]): JsonObject {
  const whole: Draft = {}
  const choices: { message: Draft; calls: Draft[]; reason: JsonValue }[] = []
  for (const event of events) {
    for (const name of ['model', 'usage']) if ((event[name] ?? null) !== null) whole[name] = event[name] as JsonValue
    for (const choice of objectsOf(event['choices'])) {
      const index = indexOf(choice)
      choices[index] ??= { message: { role: 'assistant', content: null }, calls: [], reason: null }
      const held = choices[index]
      held.reason = choice['finish_reason'] ?? held.reason
      const { role: _, tool_calls: calls, ...said } = objectOf(choice['delta'])
      addDelta(held.message, said)
      for (const call of objectsOf(calls)) {
        const at = indexOf(call)
        held.calls[at] ??= { id: '', type: 'function', function: {} }
        const { function: called, index: __, ...rest } = call
        Object.assign(held.calls[at], withoutEmpty(rest))
        addDelta(held.calls[at]['function'] as Draft, objectOf(called))
      }
    }
  }
  whole['choices'] = choices.map(({ message, calls, reason }, index) => ({
    index,
    message: calls.length === 0 ? message : { ...message, tool_calls: calls.filter(isJsonObject) },
    finish_reason: reason,
  }))
  return whole
}

/** Texts go on, whatever else comes takes the place of what was there. */
function addDelta(held: Draft, delta: JsonObject): void {
  for (const [name, value] of Object.entries(delta)) {
    if (value === null || value === undefined) continue
    const before = held[name]
    held[name] = typeof value === 'string' && typeof before === 'string' ? before + value : value
  }
}

function joinMessage(events: readonly JsonObject[]): JsonObject {
  const whole: Draft = {}
  const blocks: Draft[] = []
  const inputs: string[] = []
  for (const event of events) {
    const at = indexOf(event)
    const delta = objectOf(event['delta'])
    if (event['type'] === 'message_start') Object.assign(whole, objectOf(event['message']))
    else if (event['type'] === 'content_block_start') blocks[at] = { ...objectOf(event['content_block']) }
    else if (event['type'] === 'content_block_delta') {
      const { type: _, partial_json: json, ...said } = delta
      if (typeof json === 'string') inputs[at] = (inputs[at] ?? '') + json
      blocks[at] ??= {}
      addDelta(blocks[at], said)
    } else if (event['type'] === 'message_delta') {
      Object.assign(whole, delta)
      whole['usage'] = { ...objectOf(whole['usage']), ...objectOf(event['usage']) }
    }
  }
  for (const [at, json] of inputs.entries()) {
    if (json !== undefined && json !== '' && blocks[at] !== undefined)
      blocks[at]['input'] = JSON.parse(json) as JsonValue
  }
  return { ...whole, content: blocks.filter(isJsonObject) }
}

/** No more parts than an answer can have: a number of the upstream's must not make a list of any length. */
const MOST_PARTS = 4096

function indexOf({ index }: JsonObject): number {
  const isFit = typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < MOST_PARTS
  return isFit ? index : 0
}

const withoutEmpty = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== ''))

function objectOf(value: unknown): JsonObject {
  return isJsonObject(value as JsonValue) ? (value as JsonObject) : {}
}

function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}
