/**
 * Messages: a conversation in Anthropic's blocks, chat's answer to it in blocks. Everything that generates is chat's.
 */

import { AppError } from '#base/errors/errors.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { ChatService } from '#service/operations/generation/chat/chat.js'
import { withFoldedSystem } from '#service/operations/generation/chat/chat-request.js'
import type { TokenService } from '#service/operations/generation/text/tokens.js'
import { BILLING_FIELD, hasBillingLine } from './message-input.js'
import { toChatRequest, toPrompt } from './message-request.js'
import { createMessageBuilder, type MessageEvent } from './message-stream.js'
import type { CountMessageTokensRequest, Message, MessageRequest, MessageTokens } from './wire.js'

/** An admitted request. Exactly one of the two ways to read it is used. */
export interface MessageAnswer {
  readonly checkpoint: string
  readonly ignoredFields: readonly string[]
  readonly isStream: boolean
  message(): Promise<Message>
  events(): AsyncIterable<MessageEvent>
}

interface MessageService {
  /** As `ChatService.create`. */
  create(principal: Principal, request: MessageRequest, requestId: string, signal: AbortSignal): Promise<MessageAnswer>
  /** How long the prompt of a request would be. */
  countTokens(principal: Principal, request: CountMessageTokensRequest): Promise<MessageTokens>
}

export function createMessageService(
  context: Pick<ServiceContext, 'ids'>,
  { chat, tokens }: { readonly chat: ChatService; readonly tokens: TokenService },
): MessageService {
  const createId = (prefix: string): string => `${prefix}_${context.ids.uuid().replaceAll('-', '')}`
  return {
    create: async (principal, request, requestId, signal) => {
      const answer = await chat.create(principal, toChatRequest(request), requestId, signal)
      const chunks = answer.chunks()[Symbol.asyncIterator]()
      // the first chunk knows what the model is called, and how long the prompt is
      const first = await chunks.next()
      const model = first.done === true ? request.model : first.value.model
      const builder = createMessageBuilder(
        { id: `msg_${requestId}`, model },
        { createId, hasTokens: answer.isTrainable },
      )
      if (first.done !== true) builder.add(first.value)

      async function* events(): AsyncGenerator<MessageEvent> {
        try {
          yield builder.begin()
          for (let next = await chunks.next(); next.done !== true; next = await chunks.next())
            yield* builder.add(next.value)
          yield* builder.end()
        } finally {
          await chunks.return?.()
        }
      }

      return {
        checkpoint: answer.checkpoint,
        ignoredFields: [
          ...(hasBillingLine(request.system ?? '') ? [BILLING_FIELD] : []),
          ...answer.ignoredFields.flatMap((name) => toOwnNames(name, request)),
        ],
        isStream: request.stream === true,
        events,
        message: async () => {
          for await (const _ of events());
          if (signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
          return builder.message()
        },
      }
    },
    countTokens: async (principal, request) => {
      const { messages, tools, reasoning_effort, chat_template_kwargs, model, ...rest } = toPrompt(request)
      const { continue_final_message, add_generation_prompt } = rest
      const shaping = { messages, tools, reasoning_effort, chat_template_kwargs, model }
      const counted: ChatRequest = { ...shaping, continue_final_message, add_generation_prompt }
      const { count } = await tokens.tokenize(principal, withFoldedSystem(counted))
      return { input_tokens: count }
    },
  }
}

/** A field of chat in the words of messages; none for what was not asked for. */
function toOwnNames(name: string, { thinking, chat_template_kwargs: kwargs }: MessageRequest): readonly string[] {
  if (name === 'reasoning_effort') return ['output_config.effort']
  const isThinking = name === 'chat_template_kwargs.enable_thinking' && kwargs?.['enable_thinking'] === undefined
  if (!isThinking) return [name]
  return thinking?.type === 'disabled' ? [] : ['thinking']
}
