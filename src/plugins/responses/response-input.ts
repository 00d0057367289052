/**
 * Items of a response's input → the messages of a chat.
 *
 * Calls and reasoning join the assistant message they belong to: a template knows messages only.
 */

import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { checkParts } from '#service/operations/generation/chat/chat-messages.js'
import type { InputItem } from './wire.js'

type Message = ChatRequest['messages'][number]

interface AssistantMessage extends Message {
  tool_calls?: Record<string, unknown>[]
}

/** What `item_reference` stands for; null: not known. */
export type FindItem = (id: string) => Promise<InputItem | null>

/** Each is looked up in the database, and may be as large as its response. */
const MOST_REFERENCES = 1000

/** A text is one message of the user. @throws {InvalidRequestError} naming the item @throws {AppError} `cancelled` */
export async function toInputItems(
  input: string | readonly InputItem[],
  findItem: FindItem,
  signal: AbortSignal,
): Promise<readonly InputItem[]> {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  checkReferences(input)
  const items: InputItem[] = []
  const known = new Map<string, InputItem>()
  for (const [index, item] of input.entries()) {
    if (item.type !== 'item_reference') {
      items.push(item)
      continue
    }
    if (signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
    const id = text(item['id'])
    const found = id === null ? null : (known.get(id) ?? (await findItem(id)))
    if (id === null || found === null) {
      throw invalid(`input[${index}].id`, `Item with id '${id ?? ''}' not found.`, {
        hint: 'items are kept with stored responses for a while; send the item itself',
      })
    }
    known.set(id, found)
    items.push(found)
  }
  return items
}

function checkReferences(items: readonly InputItem[]): void {
  const ids = new Set(items.flatMap((item) => (item.type === 'item_reference' ? [item['id']] : [])))
  if (ids.size <= MOST_REFERENCES) return
  const most = MOST_REFERENCES.toLocaleString('en')
  throw invalid('input', `input must refer to at most ${most} different items, got ${ids.size.toLocaleString('en')}.`, {
    hint: 'send the items themselves, or go on from their last response with previous_response_id',
  })
}

/**
 * Refuses what a message cannot hold by the field the client sent: behind here there are only messages, counted otherwise.
 *
 * @param isFirst whether nothing was said before
 * @throws {AppError} naming `input` or a part of it
 */
export function checkInput(items: readonly InputItem[], isFirst: boolean): void {
  if (isFirst && items.length === 0) {
    throw invalid('input', 'input must be a text or a list with at least one item, got none.')
  }
  for (const [index, item] of items.entries()) {
    if ((item.type ?? 'message') === 'message') checkParts(item['content'], `input[${index}].content`)
    if (item.type === 'function_call_output') checkParts(item['output'], `input[${index}].output`)
  }
}

/** @throws {InvalidRequestError} naming the item that is no part of a conversation here */
export function toMessages(items: readonly InputItem[]): Message[] {
  const messages: Message[] = []
  let open: AssistantMessage | null = null

  /** The assistant message that a call or reasoning joins. */
  function assistant(): AssistantMessage {
    if (open === null) {
      open = { role: 'assistant', content: null }
      messages.push(open)
    }
    return open
  }

  for (const [index, item] of items.entries()) {
    const path = `input[${index}]`
    switch (item.type ?? 'message') {
      case 'message': {
        const role = text(item.role)
        if (role === null) throw invalid(`${path}.role`, `${path}.role must be a string.`)
        const content = item['content'] as Message['content']
        if (role === 'assistant') {
          const current = assistant()
          // what follows a call or another message is a turn of its own
          if (current.content === null && current.tool_calls === undefined) current.content = content
          else {
            open = { role, content }
            messages.push(open)
          }
        } else {
          open = null
          messages.push({ role, content })
        }
        break
      }
      case 'reasoning': {
        if (open !== null && (open.content !== null || open.tool_calls !== undefined)) open = null
        assistant()['reasoning'] = reasoningOf(item)
        break
      }
      case 'function_call': {
        const name = text(item['name'])
        const callId = text(item['call_id'])
        if (name === null || callId === null) {
          throw invalid(path, `${path} must have the strings name and call_id, as every function_call has.`)
        }
        // what was cut off was never called: half its arguments would be refused
        if (item['status'] === 'incomplete') break
        const called = { name, arguments: argumentsOf(item['arguments'] ?? '', `${path}.arguments`) }
        const message = assistant()
        message.tool_calls = [...(message.tool_calls ?? []), { id: callId, type: 'function', function: called }]
        break
      }
      case 'function_call_output': {
        const callId = text(item['call_id'])
        if (callId === null) throw invalid(`${path}.call_id`, `${path}.call_id must be a string.`)
        open = null
        messages.push({ role: 'tool', tool_call_id: callId, content: item['output'] as Message['content'] })
        break
      }
      default:
        throw invalid(`${path}.type`, `${path}.type "${String(item.type).slice(0, 100)}" is not supported here.`, {
          hint: 'message, function_call, function_call_output, reasoning and item_reference are',
        })
    }
  }
  return messages
}

/** Text as the model wrote it, or the object that it stands for, as in chat. */
function argumentsOf(value: unknown, path: string): unknown {
  const isObject = typeof value === 'object' && !Array.isArray(value)
  if (typeof value === 'string' || isObject) return value
  throw invalid(
    path,
    `${path} must be a string of JSON or an object, got ${Array.isArray(value) ? 'a list' : typeof value}.`,
  )
}

/** An item as it is listed: what clients may leave out of a message is there. */
export function toListedItem(item: InputItem): InputItem {
  if ((item.type ?? 'message') !== 'message') return item
  const { content } = item
  if (typeof content !== 'string') return { ...item, type: 'message' }
  const part =
    item.role === 'assistant'
      ? { type: 'output_text', text: content, annotations: [] }
      : { type: 'input_text', text: content }
  return { ...item, type: 'message', content: [part] }
}

/** The text of a reasoning item: its content, else its summary. */
function reasoningOf(item: InputItem): string | null {
  for (const parts of [item['content'], item['summary']]) {
    if (!Array.isArray(parts) || parts.length === 0) continue
    return parts.map((part: { readonly text?: unknown }) => text(part.text) ?? '').join('\n')
  }
  return null
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function invalid(param: string, message: string, options: { readonly hint?: string } = {}): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param, ...options })
}
