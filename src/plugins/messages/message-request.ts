/**
 * A request for a message → the chat request that answers it. What cannot be honoured is refused by name.
 */

import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { withFoldedSystem } from '#service/operations/generation/chat/chat-request.js'
import { withStrict } from '#service/operations/generation/chat/tool-choice.js'
import { toChatMessages, toSystem } from './message-input.js'
import type { CountMessageTokensRequest, MessageRequest } from './wire.js'

/** Efforts of Anthropic's models → those of chat. */
const EFFORTS: Readonly<Record<string, ChatRequest['reasoning_effort']>> = {
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'xhigh',
}

/** @throws {InvalidRequestError} naming the field */
export function toChatRequest(request: MessageRequest): ChatRequest {
  refuseUnsupported(request)
  if (request.max_tokens < 1) {
    throw invalid('max_tokens', `max_tokens must be at least 1, got ${request.max_tokens}.`)
  }
  return {
    ...toPrompt(request),
    temperature: request.temperature,
    top_p: request.top_p,
    top_k: request.top_k,
    min_p: request.min_p,
    seed: request.seed,
    frequency_penalty: request.frequency_penalty,
    presence_penalty: request.presence_penalty,
    repetition_penalty: request.repetition_penalty,
    min_tokens: request.min_tokens,
    ignore_eos: request.ignore_eos,
    max_tokens: request.max_tokens,
    stop: request.stop_sequences,
    response_format: toFormat(request.output_config?.format ?? null),
    // they count the tokens of thinking; trainable models show them
    return_token_ids: true,
    stream: true,
    // the first event of a stream tells how long the prompt is
    stream_options: { include_usage: true, continuous_usage_stats: true },
  }
}

/** What makes the prompt. @throws {InvalidRequestError} naming the field */
export function toPrompt(request: CountMessageTokensRequest): ChatRequest {
  const messages = toChatMessages(request.messages)
  const system = request.system == null ? null : toSystem(request.system)
  const isPrefilled = messages.at(-1)?.role === 'assistant'
  if (isPrefilled && messages.at(-1)?.tool_calls !== undefined) {
    throw invalid('messages', 'the last message calls tools: it must be followed by their results.')
  }
  return withFoldedSystem({
    model: request.model,
    messages: system === null ? messages : [system, ...messages],
    // an answer goes on behind what the assistant has said already
    ...(isPrefilled ? { continue_final_message: true, add_generation_prompt: false } : {}),
    reasoning_effort: toEffort(request.output_config?.effort ?? null),
    chat_template_kwargs: toKwargs(request),
    ...toTools(request),
  })
}

function refuseUnsupported(request: MessageRequest): void {
  // clients with threads then send all of the conversation again
  if (request.thread?.type === 'continue') {
    throw new NotFoundError('thread_not_found', 'no thread is held here: send all messages', {
      param: 'thread',
      details: { error_code: 'thread_not_found' },
    })
  }
  const refusals: readonly (readonly [field: string, isAsked: boolean, hint: string])[] = [
    ['container', (request.container ?? null) !== null, 'no code runs here: offer a tool of your own'],
    ['mcp_servers', (request.mcp_servers ?? []).length > 0, 'call the servers yourself and offer their tools'],
    ['service_tier', !['auto', 'standard_only', null].includes(request.service_tier ?? null), 'there is one tier'],
    ['speed', !['standard', null].includes(request.speed ?? null), 'there is one speed'],
  ]
  for (const [field, isAsked, hint] of refusals) {
    if (isAsked)
      throw new InvalidRequestError('not_supported', `${field} is not supported here.`, { param: field, hint })
  }
}

function toEffort(effort: string | null): ChatRequest['reasoning_effort'] {
  if (effort === null) return null
  const known = new Map(Object.entries(EFFORTS)).get(effort)
  if (known !== undefined) return known
  const names = Object.keys(EFFORTS).join(', ')
  throw invalid('output_config.effort', `output_config.effort must be one of ${names}, got "${effort.slice(0, 100)}".`)
}

/** Templates that can think know `enable_thinking`; where nothing is said, theirs is the default. */
function toKwargs({
  thinking,
  chat_template_kwargs: given,
}: CountMessageTokensRequest): ChatRequest['chat_template_kwargs'] {
  const type = thinking?.type ?? null
  if (type === null) return given
  if (!['enabled', 'disabled', 'adaptive'].includes(type)) {
    throw invalid('thinking.type', `thinking.type must be enabled, adaptive or disabled, got "${type.slice(0, 100)}".`)
  }
  return { enable_thinking: type !== 'disabled', ...given }
}

function toFormat(format: Readonly<Record<string, unknown>> | null): ChatRequest['response_format'] {
  if (format === null) return null
  const { type, schema } = format
  if (type !== 'json_schema' || typeof schema !== 'object' || schema === null) {
    throw invalid('output_config.format', 'output_config.format must have the type "json_schema" and a schema.')
  }
  return { type: 'json_schema', json_schema: { name: 'output', schema, strict: true } }
}

type Tools = Pick<ChatRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>

function toTools({ tools, tool_choice: choice }: CountMessageTokensRequest): Tools {
  const all = tools ?? []
  const other = all.findIndex(({ type }) => (type ?? 'custom') !== 'custom')
  if (other >= 0) {
    throw new InvalidRequestError(
      'not_supported',
      `tools[${other}].type "${all[other]?.type}" is not supported here.`,
      {
        param: `tools[${other}].type`,
        hint: 'tools with an input_schema are; the header x-trainyard-drop-unsupported-tools: true leaves the others out',
      },
    )
  }
  const mode = toChoice(choice ?? null)
  // without tools there is nothing to choose from, and clients say `auto` all the same
  if (all.length === 0 && (mode === 'auto' || mode === 'none')) return {}
  return {
    tools: all.length === 0 ? null : all.map(toTool),
    tool_choice: mode,
    parallel_tool_calls: choice?.disable_parallel_tool_use !== true,
  }
}

function toTool({ name, description, input_schema, strict }: NonNullable<CountMessageTokensRequest['tools']>[number]) {
  const read = {
    type: 'function',
    function: {
      name,
      ...(description == null ? {} : { description }),
      ...(input_schema == null ? {} : { parameters: input_schema }),
    },
  }
  return withStrict(read, strict)
}

function toChoice(choice: NonNullable<CountMessageTokensRequest['tool_choice']> | null): ChatRequest['tool_choice'] {
  switch (choice?.type ?? 'auto') {
    case 'auto':
      return 'auto'
    case 'none':
      return 'none'
    case 'any':
      return 'required'
    case 'tool':
      return { type: 'function', function: { name: choice?.name } }
    default:
      throw invalid(
        'tool_choice.type',
        `tool_choice.type must be auto, any, tool or none, got "${choice?.type.slice(0, 100)}".`,
      )
  }
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
