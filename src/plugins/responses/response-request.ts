/**
 * A request for a response → the chat request that answers it. What cannot be honoured is refused by name.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { type ChatRequest, CUSTOM_TOOLS, REASONING_EFFORTS } from '#contract/wire/chat-completions.js'
import { MAX_METADATA } from '#contract/wire/compatible/metadata.js'
import { allowedOf, listOf, modeOf } from '#service/operations/generation/chat/allowed-tools.js'
import { MAX_TOP_LOGPROBS } from '#service/operations/generation/chat/chat-sampling.js'
import { withStrict } from '#service/operations/generation/chat/tool-choice.js'
import type { ResponseRequest } from './wire.js'

/** Additions to an answer. Those of tools that do not exist here never have anything to add. */
const INCLUDABLE = [
  'message.output_text.logprobs',
  'reasoning.encrypted_content',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'message.input_image.image_url',
  'computer_call_output.output.image_url',
  'code_interpreter_call.outputs',
]

/**
 * @param messages the whole conversation, without the instructions
 * @throws {InvalidRequestError} naming the field
 */
export function toChatRequest(request: ResponseRequest, messages: ChatRequest['messages']): ChatRequest {
  refuseUnsupported(request)
  const { instructions = null } = request
  const tools = toTools(request)
  const topLogprobs = request.top_logprobs ?? 0
  if (topLogprobs < 0 || topLogprobs > MAX_TOP_LOGPROBS) {
    throw invalid('top_logprobs', `top_logprobs must be between 0 and ${MAX_TOP_LOGPROBS}, got ${topLogprobs}.`)
  }
  const hasLogprobs = topLogprobs > 0 || (request.include ?? []).includes('message.output_text.logprobs')
  return {
    model: request.model,
    messages: instructions === null ? messages : [{ role: 'system', content: instructions }, ...messages],
    temperature: request.temperature,
    top_p: request.top_p,
    top_k: request.top_k,
    min_p: request.min_p,
    seed: request.seed,
    frequency_penalty: request.frequency_penalty,
    presence_penalty: request.presence_penalty,
    repetition_penalty: request.repetition_penalty,
    min_tokens: request.min_tokens,
    stop: request.stop,
    ignore_eos: request.ignore_eos,
    chat_template_kwargs: request.chat_template_kwargs,
    max_tokens: toMaxTokens(request),
    reasoning_effort: toEffort(request),
    response_format: toFormat(request),
    ...tools,
    parallel_tool_calls: request.parallel_tool_calls,
    // those of trainable models come anyway, with their tokens
    logprobs: hasLogprobs ? true : undefined,
    top_logprobs: topLogprobs,
    return_tokens_as_token_ids: false,
    // they count the tokens of reasoning
    return_token_ids: true,
    stream: true,
    stream_options: { include_usage: true },
  }
}

function refuseUnsupported(request: ResponseRequest): void {
  const refusals: readonly (readonly [field: string, isAsked: boolean, hint: string])[] = [
    ['background', request.background === true, 'stream the response instead'],
    ['conversation', (request.conversation ?? null) !== null, 'use previous_response_id, or send all items'],
    ['prompt', (request.prompt ?? null) !== null, 'send instructions and input'],
    ['truncation', !['disabled', null].includes(request.truncation ?? null), 'leave old items out of input'],
    ['service_tier', !['auto', 'default', null].includes(request.service_tier ?? null), 'there is one tier'],
    [
      'reasoning.summary',
      !['auto', null].includes(request.reasoning?.summary ?? null),
      'reasoning is sent whole, nothing summarizes it',
    ],
    ['stream_options.include_obfuscation', request.stream_options?.include_obfuscation === true, 'leave it out'],
  ]
  for (const [field, isAsked, hint] of refusals) {
    if (isAsked)
      throw new InvalidRequestError('not_supported', `${field} is not supported here.`, { param: field, hint })
  }
  const unknown = (request.include ?? []).find((each) => !INCLUDABLE.includes(each))
  if (unknown !== undefined) throw invalid('include', `include "${unknown.slice(0, 100)}" is not known.`)
  if (Object.keys(request.metadata ?? {}).length > MAX_METADATA) {
    throw invalid('metadata', `metadata must have at most ${MAX_METADATA} entries.`)
  }
}

function toMaxTokens(request: ResponseRequest): number | null {
  const tokens = request.max_output_tokens ?? null
  if (tokens !== null && tokens < 1) {
    throw invalid('max_output_tokens', `max_output_tokens must be at least 1, got ${tokens}.`)
  }
  return tokens
}

function toEffort(request: ResponseRequest): ChatRequest['reasoning_effort'] {
  const effort = request.reasoning?.effort ?? null
  if (effort === null) return null
  const known = REASONING_EFFORTS.find((each) => each === effort)
  if (known !== undefined) return known
  const names = REASONING_EFFORTS.join(', ')
  throw invalid('reasoning.effort', `reasoning.effort must be one of ${names}, got "${effort.slice(0, 100)}".`)
}

function toFormat(request: ResponseRequest): ChatRequest['response_format'] {
  const format = request.text?.format ?? null
  if (format === null || format.type === 'text' || format.type === 'json_object') return format
  if (format.type === 'json_schema') {
    const { type, ...schema } = format
    return { type, json_schema: schema }
  }
  throw invalid(
    'text.format',
    `text.format.type must be text, json_object or json_schema, got "${format.type.slice(0, 100)}".`,
  )
}

type Tool = NonNullable<ResponseRequest['tools']>[number]

/** Tools and what is chosen of them. A list of allowed tools is a smaller list of tools. */
function toTools(request: ResponseRequest): Pick<ChatRequest, 'tools' | 'tool_choice'> {
  const all = request.tools ?? []
  const other = all.findIndex(({ type }) => type !== 'function')
  if (all[other]?.type === 'custom') {
    throw invalid(`tools[${other}].type`, `tools[${other}].type: ${CUSTOM_TOOLS}.`, {
      hint: 'the header x-trainyard-drop-unsupported-tools: true leaves such tools out',
    })
  }
  if (other >= 0) {
    throw invalid(`tools[${other}].type`, `tools[${other}].type "${all[other]?.type}" is not supported here.`, {
      hint: 'tools of type "function" are; the header x-trainyard-drop-unsupported-tools: true leaves the others out',
    })
  }
  const choice = request.tool_choice ?? null
  const isAllowed = typeof choice === 'object' && choice !== null && choice.type === 'allowed_tools'
  const shown = isAllowed ? allowedTools(all, choice['tools']) : all
  const mode = isAllowed ? modeOf(choice['mode'], 'tool_choice.mode') : choice
  // without tools there is nothing to choose from, and clients say `auto` all the same
  if (shown.length === 0 && (mode === 'auto' || mode === 'none')) return { tools: null, tool_choice: null }
  return { tools: shown.length === 0 ? null : shown.map(toTool), tool_choice: toChoice(mode) }
}

function toTool(tool: Tool, index: number): NonNullable<ChatRequest['tools']>[number] {
  const { name, description, parameters, strict } = tool
  if (typeof name !== 'string') throw invalid(`tools[${index}].name`, `tools[${index}].name must be a string.`)
  const read = {
    type: 'function',
    function: {
      name,
      ...(typeof description === 'string' ? { description } : {}),
      ...(typeof parameters === 'object' && parameters !== null ? { parameters: { ...parameters } } : {}),
    },
  }
  return withStrict(read, strict)
}

function toChoice(choice: Exclude<ResponseRequest['tool_choice'], undefined>): ChatRequest['tool_choice'] {
  if (choice === null || typeof choice === 'string') return choice
  if (choice.type === 'function') return { type: 'function', function: { name: choice['name'] } }
  throw invalid('tool_choice', `tool_choice of type "${choice.type.slice(0, 100)}" is not supported here.`)
}

function allowedTools(all: readonly Tool[], tools: unknown): readonly Tool[] {
  const param = 'tool_choice.tools'
  const names = listOf(tools, param).map(({ name }) => name)
  return allowedOf(all, names, { param, nameOf: (tool) => tool['name'] })
}

function invalid(param: string, message: string, options: { readonly hint?: string } = {}): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param, ...options })
}
