/**
 * Conversations to prompts: template, then tokenizer.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import type { ChatTemplate, Conversation } from './chat-template.js'
import { encodeSampled, type SampledTurn } from './sampled-turns.js'
import type { BarredText } from './template/control-tokens.js'
import { foldings } from './template/fold-system.js'
import type { TextModel } from './text-model.js'

export interface RenderOptions extends Conversation {
  /** Also add the tokens that the tokenizer puts around a text, on top of the template (default false). */
  readonly addSpecialTokens?: boolean | undefined
  /** As `EncodeOptions.maxTokens`: a prompt that cannot fit is not tokenized to its end. */
  readonly maxTokens?: number | undefined
  /** Answers that may stand in the conversation, which keep their tokens (default none). */
  readonly sampled?: readonly SampledTurn[] | undefined
  /** Render although the template leaves messages out: the caller counts them (default false). */
  readonly allowsLeftOut?: boolean | undefined
}

export interface RenderedPrompt {
  readonly text: string
  readonly tokenIds: number[]
}

/**
 * Renders a conversation with the model's chat template and tokenizes it.
 *
 * Control tokens written by the template become their ids; text of the caller that spells one stays text.
 *
 * @throws {InvalidRequestError} as `renderText`
 */
export function renderConversation(model: TextModel, options: RenderOptions): RenderedPrompt {
  const { addSpecialTokens = false, maxTokens, allowsLeftOut = false } = options
  const { text, barriers } = allowsLeftOut ? chatTemplateOf(model).render(options) : renderText(model, options)
  const { sampled = [] } = options
  if (sampled.length > 0 && !addSpecialTokens) {
    return { text, tokenIds: encodeSampled(model, { text, barriers }, sampled, maxTokens) }
  }
  return { text, tokenIds: model.tokenizer.encode(text, { parseSpecial: true, addSpecialTokens, barriers, maxTokens }) }
}

/**
 * Renders a conversation whose every message must reach the prompt, where it asks for that with system messages folded into others.
 *
 * @throws {InvalidRequestError} `no_chat_template` when the model has none; `message_left_out` naming the first message that its
 *   template leaves out; else as `ChatTemplate.render`
 */
export function renderText(model: TextModel, conversation: Conversation): BarredText {
  const template = chatTemplateOf(model)
  let refusal: unknown = null
  for (const messages of conversation.foldsSystem === true
    ? foldings(conversation.messages)
    : [conversation.messages]) {
    try {
      return renderWhole(template, { ...conversation, messages })
    } catch (error) {
      if (!(error instanceof InvalidRequestError) || !REFUSALS.includes(error.code)) throw error
      // told of the conversation as it came
      refusal ??= error
    }
  }
  throw refusal
}

/** What a template says of messages in an order, or of a role, that it does not know. */
const REFUSALS = ['chat_template_error', 'message_left_out']

function renderWhole(template: ChatTemplate, conversation: Conversation): BarredText {
  const rendered = template.render(conversation)
  const [first] = template.leftOutMessages(conversation)
  if (first === undefined) return rendered
  throw new InvalidRequestError(
    'message_left_out',
    `${describeMessage(conversation.messages, first)} is left out by the chat template of the model`,
    { param: `messages[${first}]`, hint: 'give it a role that the template writes there, such as system or user' },
  )
}

/** How a message is named to people: its path and its role. */
export function describeMessage(messages: readonly JsonValue[], index: number): string {
  const message = messages[index]
  const role = isJsonObject(message) ? message['role'] : undefined
  return `messages[${index}] (role ${JSON.stringify(role ?? null)})`
}

/** @throws {InvalidRequestError} `no_chat_template` when the model has no chat template */
export function chatTemplateOf(model: TextModel): ChatTemplate {
  if (model.chatTemplate !== null) return model.chatTemplate
  throw new InvalidRequestError('no_chat_template', 'the model has no chat template, so it cannot take messages', {
    param: 'messages',
    hint: 'use a chat model, or put a chat_template into its tokenizer_config.json',
  })
}
