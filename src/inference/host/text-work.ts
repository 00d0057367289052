/**
 * The textual half of a request: prompts to tokens, tokens to text. Pure functions of a text model, for whichever thread
 * runs them.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { assertNever } from '#base/util/assert-never.js'
import { renderConversation, renderText } from '#model/text/render.js'
import { type TextModel, withChatTemplate } from '#model/text/text-model.js'
import {
  type ConversationInput,
  MAX_LISTED_TOKENS,
  type PromptInput,
  type TextResult,
  type TextTask,
} from './protocol.js'

/** What a prompt became. */
export interface PreparedPrompt {
  /** The template's or the caller's text; empty for a prompt of tokens. */
  readonly text: string
  readonly tokenIds: readonly number[]
}

/**
 * Renders and tokenizes a prompt.
 *
 * @param maxTokens as `EncodeOptions.maxTokens`: a prompt that cannot fit is not tokenized to its end
 * @throws {InvalidRequestError} if the template refuses the messages
 */
export function preparePrompt(textModel: TextModel, input: PromptInput, maxTokens?: number): PreparedPrompt {
  if (!('prompt' in input)) {
    const { messages, tools, template, sampled } = input
    return renderConversation(modelFor(textModel, input), { messages, tools, ...template, sampled, maxTokens })
  }
  const { prompt } = input
  if ('tokenIds' in prompt) return { text: '', tokenIds: prompt.tokenIds }
  const { text, addSpecialTokens } = prompt
  // as Hugging Face's tokenizers: who writes a raw prompt writes its control tokens too
  return { text, tokenIds: textModel.tokenizer.encode(text, { parseSpecial: true, addSpecialTokens, maxTokens }) }
}

/** A request may bring a template of its own. */
function modelFor(textModel: TextModel, { template }: ConversationInput): TextModel {
  const source = template.chatTemplate ?? null
  return source === null ? textModel : withChatTemplate(textModel, source)
}

/** A list of millions holds up the processes that it goes through, and every stream with them. */
function assertListed(count: number, param: string): void {
  if (count <= MAX_LISTED_TOKENS) return
  // a text that is far too long was not counted to its end
  const message = `${param} must have at most ${MAX_LISTED_TOKENS} tokens, got at least ${count}`
  throw new InvalidRequestError('too_many_tokens', message, { param, hint: 'send it in parts' })
}

/** @throws {InvalidRequestError} if the template refuses the messages; `too_many_tokens` */
export function runTextTask(textModel: TextModel, task: TextTask): TextResult {
  const { tokenizer } = textModel
  switch (task.kind) {
    case 'tokenize': {
      const { text, tokenIds } = preparePrompt(textModel, task.input, MAX_LISTED_TOKENS)
      assertListed(tokenIds.length, 'prompt' in task.input ? 'prompt' : 'messages')
      const isSpelled = task.hasTokenStrings === true
      return { text, tokenIds, tokenStrings: isSpelled ? tokenIds.map((id) => tokenizer.idToToken(id) ?? '') : [] }
    }
    case 'render': {
      const { messages, tools, template } = task.input
      const { text } = renderText(modelFor(textModel, task.input), { messages, tools, ...template })
      return { text, tokenIds: [], tokenStrings: [] }
    }
    case 'detokenize':
      return { text: tokenizer.decode(task.tokenIds), tokenIds: [], tokenStrings: [] }
    default:
      return assertNever(task)
  }
}

/**
 * How much text there is in a request's input, in UTF-16 units, counted up to a limit. Containers count as some text, because
 * a template walks them.
 */
export function textSize(value: unknown, limit: number): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let size = 16
  // a list of numbers: tokens are only copied
  if (Array.isArray(value) && typeof value[0] === 'number') return size + value.length
  for (const part of Array.isArray(value) ? value : Object.values(value)) {
    size += textSize(part, limit - size)
    if (size > limit) break
  }
  return size
}
