/**
 * Conversations to prompts: template, then tokenizer.
 */
import { InvalidRequestError } from '#base/errors.js'
import type { ChatTemplate, Conversation } from './chat-template.js'
import type { TextModel } from './text-model.js'

export interface RenderOptions extends Conversation {
  /** Also add the tokens that the tokenizer puts around a text, on top of the template (default false). */
  readonly addSpecialTokens?: boolean | undefined
  /** As `EncodeOptions.maxTokens`: a prompt that cannot fit is not tokenized to its end. */
  readonly maxTokens?: number | undefined
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
 * @throws {InvalidRequestError} `no_chat_template` when the model has none; else as `ChatTemplate.render`
 */
export function renderConversation(model: TextModel, options: RenderOptions): RenderedPrompt {
  const { text, barriers } = chatTemplateOf(model).render(options)
  const { addSpecialTokens = false, maxTokens } = options
  return { text, tokenIds: model.tokenizer.encode(text, { parseSpecial: true, addSpecialTokens, barriers, maxTokens }) }
}

/** @throws {InvalidRequestError} `no_chat_template` when the model has no chat template */
export function chatTemplateOf(model: TextModel): ChatTemplate {
  if (model.chatTemplate !== null) return model.chatTemplate
  throw new InvalidRequestError('no_chat_template', 'the model has no chat template, so it cannot take messages', {
    param: 'messages',
    hint: 'use a chat model, or put a chat_template into its tokenizer_config.json',
  })
}
