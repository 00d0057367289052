/**
 * Whether a chat template can be rendered, asked when a model is added: a handful of conversations is rendered, so that what a
 * template needs and the renderer lacks is not found by the first request.
 *
 * A template may refuse a conversation (`raise_exception`), and may fail on one that it does not expect; it must render plain chat.
 */
import { AppError, TokenizerError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { ChatTemplate, Conversation } from './chat-template.js'
import { locateRenderFault } from './template/template-faults.js'

const user: JsonObject = { role: 'user', content: 'What is the weather?' }
const answer: JsonObject = { role: 'assistant', content: 'It is sunny.' }
const system: JsonObject = { role: 'system', content: 'Be brief.' }
const call: JsonObject = {
  role: 'assistant',
  content: '',
  tool_calls: [{ id: 'call00001', type: 'function', function: { name: 'weather', arguments: '{"city": "Rome"}' } }],
}
const result: JsonObject = { role: 'tool', tool_call_id: 'call00001', name: 'weather', content: '{"sky": "clear"}' }
const tools: readonly JsonValue[] = [
  {
    type: 'function',
    function: {
      name: 'weather',
      description: 'The weather of a city.',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
]

/** Plain chat, which every template must render. */
const PLAIN: readonly Conversation[] = [{ messages: [user] }, { messages: [user, answer, user] }]
const withSystem: Conversation = { messages: [system, user] }
const withTools: Conversation = { messages: [user], tools }
const withCall: Conversation = { messages: [user, call, result], tools }
const withoutCall: readonly JsonObject[] = [user, { role: 'assistant', content: '' }, result]
/** What a template may fail on, but not for want of something in the renderer. */
const OTHERS: readonly Conversation[] = [
  withSystem,
  withTools,
  withCall,
  { messages: [user, { ...answer, reasoning: 'The sky is clear.' }, user], kwargs: { enable_thinking: true } },
  { messages: [user], kwargs: { enable_thinking: false } },
  { messages: [system, user, answer], addGenerationPrompt: false },
]

/** How the interpreter says that it does not know something. */
const isLack = (reason: string): boolean => /^Unknown |^unhashable key|^Cannot convert to JSON/.test(reason)

/** @throws {TokenizerError} `unsupported_chat_template` with line and construct, where they can be told */
export function checkTemplate(template: ChatTemplate): void {
  for (const conversation of [...PLAIN, ...OTHERS]) {
    const reason = failureOf(template, conversation)
    if (reason === null || !(PLAIN.includes(conversation) || isLack(reason))) continue
    const place = locateRenderFault(template.source, reason)
    throw new TokenizerError(
      'unsupported_chat_template',
      `chat template cannot be rendered: ${reason}${place === null ? '' : `, ${place}`}`,
      { hint: 'change that place of the template, in chat_template.jinja or tokenizer_config.json' },
    )
  }
}

/** What a template does not write of chats that most templates know; each in words for people. */
export interface TemplateLimits {
  /** Nothing of it reaches the prompt. */
  readonly leftOut: readonly string[]
  /** The template refuses it in words of its own, or cannot render it. */
  readonly refused: readonly string[]
}

/** Of a template that `checkTemplate` let pass. */
export function templateLimits(template: ChatTemplate): TemplateLimits {
  const leftOut: string[] = []
  const refused: string[] = []
  const look = (words: string, conversation: Conversation, isLeftOut: () => boolean): void => {
    if (!canRender(template, conversation)) refused.push(words)
    else if (isLeftOut()) leftOut.push(words)
  }
  const isMessageLeftOut = (conversation: Conversation, index: number): boolean =>
    template.leftOutMessages(conversation).includes(index)
  look('system messages', withSystem, () => isMessageLeftOut(withSystem, 0))
  const textOf = (conversation: Conversation): string | null =>
    canRender(template, conversation) ? template.render(conversation).text : null
  look('tools', withTools, () => textOf(withTools) === textOf({ messages: [user] }))
  // a turn of nothing but a call may be written as an empty one
  look('earlier calls of tools', withCall, () => textOf(withCall) === textOf({ ...withCall, messages: withoutCall }))
  // what is refused with a call was said above
  if (canRender(template, withCall) && isMessageLeftOut(withCall, 2)) leftOut.push('results of tools')
  return { leftOut, refused }
}

function canRender(template: ChatTemplate, conversation: Conversation): boolean {
  try {
    template.render(conversation)
    return true
  } catch (error) {
    if (error instanceof AppError) return false
    throw error
  }
}

/** What the interpreter says; null where the template renders the conversation or refuses it itself. */
function failureOf(template: ChatTemplate, conversation: Conversation): string | null {
  try {
    template.render(conversation)
    return null
  } catch (error) {
    // the interpreter's own failure stands behind the error, a refusal of the template does not
    if (!(error instanceof AppError) || error.code !== 'chat_template_error') throw error
    return error.cause instanceof Error ? error.cause.message : null
  }
}
