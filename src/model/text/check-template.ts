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
/** What a template may fail on, but not for want of something in the renderer. */
const OTHERS: readonly Conversation[] = [
  { messages: [system, user] },
  { messages: [user], tools },
  { messages: [user, call, result], tools },
  { messages: [user, { ...answer, reasoning: 'The sky is clear.' }, user], kwargs: { enable_thinking: true } },
  { messages: [user], kwargs: { enable_thinking: false } },
  { messages: [system, user, answer], addGenerationPrompt: false },
]

/** How the interpreter says that it does not know something. */
const isLack = (reason: string): boolean => /^Unknown |^Object keys must be|^Cannot convert to JSON/.test(reason)

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
