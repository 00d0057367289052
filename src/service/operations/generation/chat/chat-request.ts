/**
 * A chat request → the command the engine host runs. Ranges, combinations and the words of their errors follow vLLM
 * (v0.17); defaults are neutral (temperature 1, top_p 1, nothing else).
 *
 * Differences from vLLM, on purpose: `continue_final_message` with `add_generation_prompt` omitted means false for the
 * latter.
 */

import { type AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { RESERVED_KWARGS } from '#contract/wire/inference/template-kwargs.js'
import type { ChatMessage, ConversationInput, GenerateOptions, GrammarSpec } from '#inference/host/protocol.js'
import type { ChatRules } from '../../context.js'
import type { ToolMode } from './answer-text.js'
import { checkMessages, echoOf } from './chat-messages.js'
import { checkPromptLogprobs, checkTopLogprobs, toLogprobTokenIds, toSampling } from './chat-sampling.js'
import { withNewerCalls } from './older-calls.js'
import type { Policy } from './served-models.js'
import { grammarField, toGrammar } from './structured-outputs.js'
import { toToolUse } from './tool-choice.js'

const TEMPLATE_REFUSED =
  'Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.'
const MAX_TEMPLATE_CHARACTERS = 262_144

/** What shapes the answer besides the engine's own events. */
export interface AnswerOptions {
  readonly n: number
  readonly role: string
  /** Logprobs are sent, with `topLogprobs` alternatives. */
  readonly hasLogprobs: boolean
  readonly topLogprobs: number
  /** Tokens that are sent besides, at every position. */
  readonly logprobTokenIds: readonly number[]
  /** Token texts are `token_id:<id>`. */
  readonly isTokenAsId: boolean
  /** Those of alternatives too: nobody trains on them, so only where it was asked for. */
  readonly isAlternativeAsId: boolean
  /** `prompt_token_ids` and `token_ids` are sent. */
  readonly hasTokenIds: boolean
  readonly isStream: boolean
  readonly includeUsage: boolean
  readonly continuousUsage: boolean
  readonly toolMode: ToolMode
  /** Calls stand in `function_call`, as those who ask with `functions` expect. */
  readonly isFunctionForm: boolean
  readonly includesReasoning: boolean
  /** Text that the answer begins with, because the client asked to have it repeated; null: none. */
  readonly echo: string | null
  /** How likely the prompt's tokens were is sent. */
  readonly hasPromptLogprobs: boolean
  /** Whether times are sent: never, at the end, or with every chunk. */
  readonly timings: 'none' | 'end' | 'each'
}

export type EngineCommand = Omit<GenerateOptions, 'id' | 'adapter'> & ConversationInput

/** @throws {AppError} naming the field in `param` */
export function toEngineCommand(
  request: ChatRequest,
  policy: Pick<Policy, 'model' | 'templateKwargs'>,
  rules: ChatRules,
): EngineCommand {
  const conversation = toConversation(request, policy.templateKwargs, rules)
  const isTrainable = policy.model !== null
  const toolUse = toToolUse(request)
  const salt = request.cache_salt ?? null
  if (salt === '') {
    throw invalid('cache_salt', "Parameter 'cache_salt' must be a non-empty string if provided.")
  }
  const grammar = toOneGrammar(request, toolUse.grammar)
  if (grammar !== null && request.use_beam_search === true) {
    throw invalid('use_beam_search', 'use_beam_search cannot be combined with structured outputs or required tools.')
  }
  return {
    ...conversation,
    truncatePromptTokens: toTruncation(request),
    sampling: toSampling(request, toolUse.mode, isTrainable),
    grammar,
    ...(grammar === null ? {} : { grammarParam: toolUse.grammar === null ? grammarField(request) : 'tools' }),
    cacheSalt: salt,
    priority: toPriority(request, rules),
  }
}

/**
 * What the chat template gets of a request.
 *
 * @param defaults template variables of the checkpoint that answers; the request's own come before them, name by name
 * @throws {AppError} naming the field in `param`
 */
export function toConversation(
  request: ChatRequest,
  defaults: JsonObject,
  rules: Pick<ChatRules, 'allowsTemplate'>,
): ConversationInput {
  return {
    messages: checkMessages(withNewerCalls(request.messages)) as readonly ChatMessage[],
    tools: request.tools == null || request.tools.length === 0 ? null : (request.tools as readonly JsonValue[]),
    template: toTemplate(request, defaults, rules),
  }
}

/**
 * An answer is held to one thing: a tool's schema and another constraint cannot both be met. A response format is for text, and an
 * answer that must be calls has none: clients send both.
 */
function toOneGrammar(request: ChatRequest, ofTools: GrammarSpec | null): GrammarSpec | null {
  const ofOutput = toGrammar(request)
  if (ofTools === null || ofOutput === null) return ofTools ?? ofOutput
  if (grammarField(request) === 'response_format') return ofTools
  throw invalid('structured_outputs', 'You can only either use constraints for structured outputs or tools, not both.')
}

/** @param isTrainable the request goes to a trainable model, whose callers always need exact tokens */
export function toAnswerOptions(request: ChatRequest, isTrainable: boolean): AnswerOptions {
  const isStream = request.stream === true
  const streamOptions = request.stream_options ?? null
  if (!isStream && streamOptions !== null && Object.keys(streamOptions).length > 0) {
    throw invalid('stream_options', 'Stream options can only be defined when `stream=True`.')
  }
  const includeUsage = streamOptions?.include_usage === true
  const lastRole = request.messages.at(-1)?.role ?? 'assistant'
  const role = isGenerationPromptAdded(request) ? 'assistant' : lastRole
  const hasTimings = request.timings === true ? 'end' : 'none'
  return {
    n: request.n ?? 1,
    role,
    hasLogprobs: request.logprobs ?? isTrainable,
    topLogprobs: checkTopLogprobs(request, isTrainable),
    logprobTokenIds: toLogprobTokenIds(request, isTrainable),
    isTokenAsId: request.return_tokens_as_token_ids ?? isTrainable,
    isAlternativeAsId: request.return_tokens_as_token_ids === true,
    hasTokenIds: request.return_token_ids ?? isTrainable,
    isStream,
    includeUsage,
    continuousUsage: includeUsage && streamOptions?.continuous_usage_stats === true,
    toolMode: toToolUse(request).mode,
    isFunctionForm: false,
    includesReasoning: request.include_reasoning ?? true,
    echo: request.echo === true && lastRole === role ? echoOf(request.messages.at(-1)) : null,
    hasPromptLogprobs: checkPromptLogprobs(request) !== null,
    timings: request.timings_per_token === true ? 'each' : hasTimings,
  }
}

function toTemplate(
  request: ChatRequest,
  defaults: JsonObject,
  { allowsTemplate }: Pick<ChatRules, 'allowsTemplate'>,
): ConversationInput['template'] {
  const isContinued = request.continue_final_message === true
  if (isContinued && request.add_generation_prompt === true) {
    throw invalid(
      'continue_final_message',
      'Cannot set both `continue_final_message` and `add_generation_prompt` to True.',
    )
  }
  const { chat_template: own, ...kwargs } = (request.chat_template_kwargs ?? {}) as JsonObject
  const chatTemplate = request.chat_template ?? own ?? null
  if (chatTemplate !== null && !allowsTemplate) throw invalid('chat_template', TEMPLATE_REFUSED)
  if (chatTemplate !== null && typeof chatTemplate !== 'string') {
    throw invalid('chat_template_kwargs', 'chat_template_kwargs.chat_template must be a string.')
  }
  if (chatTemplate !== null && chatTemplate.length > MAX_TEMPLATE_CHARACTERS) {
    throw invalid('chat_template', `chat_template must have at most ${MAX_TEMPLATE_CHARACTERS} characters.`)
  }
  for (const name of RESERVED_KWARGS) {
    if (Object.hasOwn(kwargs, name)) {
      throw invalid('chat_template_kwargs', `chat_template_kwargs must not set "${name}".`)
    }
  }
  const effort = request.reasoning_effort ?? null
  // as newer versions of vLLM: most templates that can think have a switch, no effort
  const ofEffort = effort === null ? {} : { reasoning_effort: effort, enable_thinking: effort !== 'none' }
  return {
    addGenerationPrompt: isGenerationPromptAdded(request),
    continueFinalMessage: isContinued,
    addSpecialTokens: request.add_special_tokens === true,
    kwargs: { ...defaults, ...ofEffort, ...kwargs },
    documents: (request.documents ?? null) as readonly JsonValue[] | null,
    chatTemplate,
    ...(FOLDS_SYSTEM in request ? { foldsSystem: true } : {}),
  }
}

/** Of a request of another API than chat's, where a system message may stand anywhere. */
const FOLDS_SYSTEM = Symbol('folds system')

/** The request, whose system messages become part of the turns beside them where the template takes none. */
export function withFoldedSystem(request: ChatRequest): ChatRequest {
  return Object.assign(request, { [FOLDS_SYSTEM]: true })
}

/** Names of a template's variables that stand for an effort. */
const EFFORT_NAMES = ['reasoning_effort', 'enable_thinking']

/** Fields of a request that are for the chat template, and that the model's does not read. @param names that it reads */
export function unreadFields(request: ChatRequest, names: readonly string[]): readonly string[] {
  const kwargs = Object.keys(request.chat_template_kwargs ?? {}).filter((name) => name !== 'chat_template')
  // a model that never thinks does what `none` asks
  const { reasoning_effort: effort = null } = request
  const isEffortUnread = effort !== null && effort !== 'none' && !EFFORT_NAMES.some((name) => names.includes(name))
  return [
    ...((request.documents ?? null) !== null && !names.includes('documents') ? ['documents'] : []),
    ...(isEffortUnread ? ['reasoning_effort'] : []),
    ...kwargs.filter((name) => !names.includes(name)).map((name) => `chat_template_kwargs.${name}`),
  ]
}

function isGenerationPromptAdded(request: ChatRequest): boolean {
  return request.add_generation_prompt ?? request.continue_final_message !== true
}

/** @throws {AppError} naming `priority` where this server goes by arrival */
export function toPriority({ priority }: Pick<ChatRequest, 'priority'>, { allowsPriority }: ChatRules): number {
  const value = priority ?? 0
  if (value === 0 || allowsPriority) return value
  throw invalid('priority', `Got priority ${value} but Priority scheduling is not enabled.`)
}

/** How many of the prompt's last tokens are kept, as `truncatePromptTokens`. */
export function toTruncation(request: ChatRequest): number | null {
  const value = request.truncate_prompt_tokens ?? null
  if (value === null) return null
  if (value === 0n) throw invalid('truncate_prompt_tokens', 'truncate_prompt_tokens must be -1 or at least 1, got 0.')
  // beyond 2^53 no context is that long: the engine's own limit refuses it with its words
  return Number(value)
}

function invalid(param: string, message: string): AppError {
  return new InvalidRequestError('invalid_value', message, { param })
}
