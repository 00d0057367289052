/**
 * OpenAI's earlier form of calls in chat: `functions`, `function_call`, messages of role `function`. Read as tools, and answered in the form
 * that was asked for: one call, in `function_call`, with the finish reason `function_call` where the model chose to call.
 *
 * Source: OpenAI's chat API, whose deprecated fields these are.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { createMessageReader } from '#formats/rows/notes/read-message.js'

export interface NewerRequest {
  readonly request: ChatRequest
  /** The answer has its call in `function_call`. */
  readonly isFunctionForm: boolean
}

/** @throws {InvalidRequestError} naming `functions` or `function_call` */
export function withFunctions(given: ChatRequest): NewerRequest {
  const { functions: listed, function_call: chosen, ...request } = given
  const functions = listed ?? []
  const choice = chosen ?? null
  if (functions.length === 0) {
    if (choice === null || choice === 'none') return { request, isFunctionForm: false }
    throw invalid(
      'function_call',
      'When using `function_call`, `functions` must be set.',
      (request.tools ?? []).length > 0
        ? 'tools are chosen by tool_choice'
        : 'newer requests have tools and tool_choice',
    )
  }
  if ((request.tools ?? []).length > 0 || (request.tool_choice ?? null) !== null) {
    throw invalid('functions', 'functions cannot be combined with tools and tool_choice, of which one would be lost.')
  }
  return {
    request: {
      ...request,
      tools: functions.map((each) => ({ type: 'function', function: each })),
      tool_choice: toChoice(choice),
      parallel_tool_calls: false,
    },
    isFunctionForm: true,
  }
}

/** The messages with calls and results in today's form. @throws {InvalidRequestError} naming the message */
export function withNewerCalls(messages: ChatRequest['messages']): ChatRequest['messages'] {
  const isOlder = ({ role, function_call: call }: ChatRequest['messages'][number]): boolean =>
    role === 'function' || (call ?? null) !== null
  if (!messages.some(isOlder)) return messages
  const reader = createMessageReader()
  return messages.map((message, index) => {
    const read = reader.read(withoutEmptyCall(message), () => {})
    if (typeof read === 'string') throw invalid(`messages[${index}]`, `messages[${index}] has ${read}.`)
    return read as ChatRequest['messages'][number]
  })
}

/** Clients write out what they do not use. */
function withoutEmptyCall(message: ChatRequest['messages'][number]): JsonObject {
  const { function_call: call, ...others } = message
  const isEmpty = typeof call === 'object' && (call === null || Object.keys(call).length === 0)
  return (call === undefined || isEmpty ? others : message) as JsonObject
}

function toChoice(choice: NonNullable<ChatRequest['function_call']> | null): ChatRequest['tool_choice'] {
  if (choice === null || choice === 'auto') return 'auto'
  if (choice === 'none') return 'none'
  if (typeof choice === 'object' && typeof choice['name'] === 'string') {
    return { type: 'function', function: { name: choice['name'] } }
  }
  const shown = JSON.stringify(choice).slice(0, 100)
  throw invalid('function_call', `function_call must be "none", "auto" or {"name": …}, got ${shown}.`)
}

function invalid(param: string, message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param, ...(hint === undefined ? {} : { hint }) })
}
