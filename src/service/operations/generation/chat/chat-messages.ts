/**
 * Checks the messages of a chat request before they reach a template: content parts and tool calls.
 *
 * How parts are joined is decided in `model/text/template/`; only what can never work is refused here, in vLLM's words.
 */

import { MEDIA_PARTS, TEXT_PART_FIELDS } from '#base/content-parts.js'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { isExactNumber } from '#base/json/exact-number.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'

type Message = ChatRequest['messages'][number]

/** @throws {AppError} `invalid_value`, or `not_implemented` for an unknown part type, naming the message */
export function checkMessages(messages: readonly Message[]): readonly Message[] {
  if (messages.length === 0) throw invalid('messages', 'messages must hold at least one message.')
  for (const [index, message] of messages.entries()) {
    checkParts(message.content, `messages[${index}].content`)
    for (const [c, call] of (message.tool_calls ?? []).entries()) {
      checkToolCall(call, `messages[${index}].tool_calls[${c}]`)
    }
  }
  return messages
}

/** Checks content that may be a list of parts. @throws as `checkMessages`, naming the part below `path` */
export function checkParts(content: unknown, path: string): void {
  const parts: readonly unknown[] = Array.isArray(content) ? content : []
  for (const [p, part] of parts.entries()) checkPart(part, `${path}[${p}]`)
}

/** A message's text as an echo repeats it; null where it has none. */
export function echoOf(message: Message | undefined): string | null {
  const content = message?.content ?? null
  if (content === null || typeof content === 'string') return content
  const texts = content.map((part) => {
    if (typeof part === 'string') return part
    const { text } = part as { text?: unknown }
    return typeof text === 'string' ? text : ''
  })
  return texts.join('\n')
}

function checkPart(part: unknown, path: string): void {
  if (typeof part === 'string') return
  if (typeof part !== 'object' || part === null) throw invalid(path, `${path} must be a string or an object.`)
  const fields = new Map<string, unknown>(Object.entries(part))
  const type = fields.get('type') ?? MEDIA_PARTS.find((key) => fields.has(key))
  if (type === undefined) throw invalid(path, "Missing 'type' field in multimodal part.")
  if (typeof type !== 'string') throw invalid(`${path}.type`, `${path}.type must be a string.`)
  if (MEDIA_PARTS.some((key) => key === type)) {
    throw invalid(path, `${path} has media of type "${type}", but the model takes text only.`)
  }
  const field = new Map(Object.entries(TEXT_PART_FIELDS)).get(type)
  if (field === undefined) {
    throw new AppError('not_implemented', 'not_implemented', `Unknown part type: ${type.slice(0, 100)}`, {
      param: path,
    })
  }
  const text = fields.get(field) ?? null
  if (text !== null && typeof text !== 'string') throw invalid(path, `${path}.${field} must be a string.`)
}

function checkToolCall(call: Readonly<Record<string, unknown>>, path: string): void {
  const called = call['function']
  if (typeof called !== 'object' || called === null) throw invalid(path, `${path}.function must be an object.`)
  const fields = new Map<string, unknown>(Object.entries(called))
  if (typeof fields.get('name') !== 'string') throw invalid(path, `${path}.function.name must be a string.`)
  // whatever text: a model's own may be no JSON, and its conversation goes on
  const given = fields.get('arguments') ?? ''
  const isObject = typeof given === 'object' && !Array.isArray(given) && !isExactNumber(given)
  if (typeof given !== 'string' && !isObject) {
    throw invalid(
      `${path}.function.arguments`,
      `${path}.function.arguments must be a string of JSON or an object, got ${JSON.stringify(given).slice(0, 100)}.`,
    )
  }
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
