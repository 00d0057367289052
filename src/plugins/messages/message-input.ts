/**
 * Messages of Anthropic's format → the messages of a chat.
 *
 * Results of tools are messages of their own there; calls and thinking join the assistant message they stand in. Turns of one role
 * that follow each other are one turn, as Anthropic reads them. Blocks that a model of text cannot read are refused by name.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { INVALID_JSON } from '#formats/answers/call-id.js'
import type { InputBlock, InputMessage } from './wire.js'

type ChatMessage = ChatRequest['messages'][number]
type ToolCall = NonNullable<ChatMessage['tool_calls']>[number]
/** A block, whatever it holds. */
type Block = Omit<InputBlock, 'content'>
interface TextPart {
  readonly type: 'text'
  readonly text: string
}

const ROLES = ['user', 'assistant', 'system']

/** @throws {InvalidRequestError} naming the message or block */
export function toChatMessages(messages: readonly InputMessage[]): ChatMessage[] {
  if (messages.length === 0) throw invalid('messages', 'messages must hold at least one message, got none.')
  const result: ChatMessage[] = []
  for (const [index, { role, content }] of messages.entries()) {
    const path = `messages[${index}]`
    if (!ROLES.includes(role)) {
      throw invalid(`${path}.role`, `${path}.role must be user, assistant or system, got "${role.slice(0, 100)}".`)
    }
    const blocks: readonly InputBlock[] = typeof content === 'string' ? toBlocks(content) : content
    const added = role === 'assistant' ? [toAssistant(blocks, path)] : toOthers(role, blocks, path)
    for (const message of added) addTurn(result, message)
  }
  return result
}

/** The text of a system prompt, without what is meant for an accounting; null: none. @throws {InvalidRequestError} naming the block */
export function toSystem(system: string | readonly Block[]): ChatMessage | null {
  const content = textsOf(toBlocks(system), 'system').flatMap(({ type, text }) => {
    const said = text.replace(BILLING_LINE, '')
    return said === '' && text !== '' ? [] : [{ type, text: said }]
  })
  return content.length === 0 ? null : { role: 'system', content: joined(content) }
}

/**
 * What Claude Code writes before everything else, with a sum that differs from request to request: in the prompt, nothing behind it would be
 * found in the cache. It says nothing to a model. Source: llama.cpp's pull request 21793.
 */
const BILLING_LINE = /^x-anthropic-billing-header:(?:[ \t]*[\w-]+=[^;\n]*;)+[ \t]*\n*/

export const BILLING_FIELD = 'system.x-anthropic-billing-header'

/** Whether a system prompt has a line that is left out of it. */
export function hasBillingLine(system: string | readonly Block[]): boolean {
  return toBlocks(system).some(({ text }) => typeof text === 'string' && BILLING_LINE.test(text))
}

function toBlocks(content: string | readonly Block[]): readonly Block[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}

function toAssistant(blocks: readonly InputBlock[], path: string): ChatMessage {
  const texts: TextPart[] = []
  const thoughts: string[] = []
  const calls: ToolCall[] = []
  for (const [index, block] of blocks.entries()) {
    const place = `${path}.content[${index}]`
    if (block.type === 'text') texts.push(toText(block, place))
    else if (block.type === 'thinking') thoughts.push(stringOf(block.thinking, `${place}.thinking`))
    else if (block.type === 'tool_use') calls.push(toCall(block, place))
    else throw unsupported(block, place, 'text, thinking and tool_use')
  }
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : joined(texts),
    ...(thoughts.length === 0 ? {} : { reasoning: thoughts.join('\n') }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** A user's turn, with the results of tools before what is said, in the order they stand in. */
function toOthers(role: string, blocks: readonly InputBlock[], path: string): ChatMessage[] {
  const messages: ChatMessage[] = []
  let texts: TextPart[] = []
  const say = (): void => {
    if (texts.length > 0) messages.push({ role, content: joined(texts) })
    texts = []
  }
  for (const [index, block] of blocks.entries()) {
    const place = `${path}.content[${index}]`
    if (block.type === 'text') {
      texts.push(toText(block, place))
      continue
    }
    if (block.type !== 'tool_result' || role !== 'user') throw unsupported(block, place, readableIn(role))
    say()
    const id = stringOf(block.tool_use_id, `${place}.tool_use_id`)
    const content = textsOf(toBlocks(block.content ?? ''), `${place}.content`)
    messages.push({ role: 'tool', tool_call_id: id, content: joined(content) })
  }
  say()
  // a turn without a word is still a turn
  return messages.length === 0 ? [{ role, content: '' }] : messages
}

function readableIn(role: string): string {
  return role === 'user' ? 'text and tool_result' : 'text'
}

/** Joins a turn to the one before it where both are of one role and say nothing but text. */
function addTurn(messages: ChatMessage[], message: ChatMessage): void {
  const last = messages.at(-1)
  const isPlain = message.role !== 'tool' && message.reasoning === undefined
  if (last === undefined || last.role !== message.role || !isPlain || last.tool_calls !== undefined) {
    messages.push(message)
    return
  }
  const parts = [...partsOf(last.content), ...partsOf(message.content)]
  messages[messages.length - 1] = { ...last, ...message, content: parts.length === 0 ? null : parts }
}

function partsOf(content: ChatMessage['content']): TextPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  return [...((content ?? []) as TextPart[])]
}

/** One text stays a string, as templates like it. */
function joined(texts: readonly TextPart[]): string | TextPart[] {
  const [first, ...others] = texts
  return others.length === 0 ? (first?.text ?? '') : [...texts]
}

function textsOf(blocks: readonly Block[], path: string): TextPart[] {
  return blocks.map((block, index) => {
    if (block.type !== 'text') throw unsupported(block, `${path}[${index}]`, 'text')
    return toText(block, `${path}[${index}]`)
  })
}

function toText({ text }: Block, path: string): TextPart {
  return { type: 'text', text: stringOf(text, `${path}.text`) }
}

function toCall(block: Block, path: string): ToolCall {
  const { input = {} } = block
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw invalid(`${path}.input`, `${path}.input must be an object, got ${JSON.stringify(input).slice(0, 100)}.`)
  }
  return {
    id: stringOf(block.id, `${path}.id`),
    type: 'function',
    // not as text: that would be taken for the model's own
    function: { name: stringOf(block.name, `${path}.name`), arguments: invalidJsonIn(input) ?? (input as JsonObject) },
  }
}

/** The text that stands for input which was no object; null where it was one. */
function invalidJsonIn(input: object): string | null {
  const [[key, text] = [], ...others] = Object.entries(input)
  return key === INVALID_JSON && typeof text === 'string' && others.length === 0 ? text : null
}

function stringOf(value: unknown, path: string): string {
  if (typeof value === 'string') return value
  throw invalid(path, `${path} must be a string, got ${JSON.stringify(value ?? null).slice(0, 100)}.`)
}

function unsupported({ type }: Block, path: string, readable: string): InvalidRequestError {
  return new InvalidRequestError('not_supported', `${path}.type "${type.slice(0, 100)}" is not supported here.`, {
    param: `${path}.type`,
    hint: `a model of text reads blocks of type ${readable} here`,
  })
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
