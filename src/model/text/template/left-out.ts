/**
 * Which messages of a conversation a chat template leaves out: a template that tests roles one by one writes nothing for a role
 * that it does not know, and says nothing.
 *
 * Found by rendering: a message whose text can change without a change in what is written was left out. What a template does
 * with a message hangs on its role, its place and its neighbours, so that kinds of messages are remembered that were seen to be
 * written, and most conversations cost no rendering. Knows nothing of any model's template.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { TemplateVariables } from './interpreter.js'

/** Finds the messages that a template leaves out. @returns their positions, in order */
export type LeftOutFinder = (variables: TemplateVariables, messages: readonly JsonObject[]) => number[]

/** Kinds of messages that are remembered; a template meets a few dozen. */
const MAX_KINDS = 4096
/** Unknown kinds looked at in one conversation: each costs a rendering. Those beyond wait for another conversation. */
const MAX_LOOKS = 32
/** Longer template variables are not remembered. */
const MAX_KEY_LENGTH = 512

/** @param render the template's plain rendering; what it throws says that the template did look at the message */
export function createLeftOutFinder(render: (variables: TemplateVariables) => string): LeftOutFinder {
  const written = new Set<string>()

  return (variables, messages) => {
    const isUnknown = new Map<string, number[]>()
    const setting = settingOf(variables)
    for (const [index, message] of messages.entries()) {
      if (!saysSomething(message)) continue
      const kind = `${setting}\n${kindOf(messages, index)}`
      if (!written.has(kind)) isUnknown.set(kind, [...(isUnknown.get(kind) ?? []), index])
    }
    if (isUnknown.size === 0) return []
    const whole = render(variables)
    const renderOther = (others: readonly JsonObject[]): string | null =>
      textOrNull(() => render({ ...variables, messages: others }))
    const leftOut: number[] = []
    for (const [kind, [first = 0, ...others]] of [...isUnknown].slice(0, MAX_LOOKS)) {
      if (isLeftOut(whole, messages, first, renderOther)) {
        const more = others.slice(0, MAX_LOOKS).filter((at) => isLeftOut(whole, messages, at, renderOther))
        append(leftOut, [first, ...more])
        continue
      }
      if (written.size >= MAX_KINDS) written.clear()
      if (setting.length <= MAX_KEY_LENGTH) written.add(kind)
    }
    return leftOut.sort((a, b) => a - b)
  }
}

function isLeftOut(
  whole: string,
  messages: readonly JsonObject[],
  at: number,
  render: (messages: readonly JsonObject[]) => string | null,
): boolean {
  const message = messages[at] ?? {}
  const content = message['content'] ?? ''
  if (hasText(content)) {
    const changed = { ...message, content: appendToText(content, 'x') }
    if (render(messages.with(at, changed)) !== whole) return false
  }
  // some templates write calls alone and drop the words beside them: that is their form, not a lost message
  return !hasCalls(message) || render(messages.toSpliced(at, 1)) === whole
}

function textOrNull(render: () => string): string | null {
  try {
    return render()
  } catch {
    return null
  }
}

const hasText = (content: JsonValue): boolean =>
  typeof content === 'string'
    ? content.trim() !== ''
    : Array.isArray(content) &&
      content.some((part: JsonValue) => isJsonObject(part) && String(part['text'] ?? '').trim() !== '')

const hasCalls = (message: JsonObject): boolean =>
  Array.isArray(message['tool_calls']) && message['tool_calls'].length > 0

const saysSomething = (message: JsonObject): boolean => hasText(message['content'] ?? '') || hasCalls(message)

/** Everything that shapes a prompt besides the messages, in short. */
function settingOf({ messages: _, tools, documents, ...others }: TemplateVariables): string {
  return JSON.stringify([tools === null, documents === null, others])
}

function kindOf(messages: readonly JsonObject[], index: number): string {
  const role = (at: number): JsonValue => messages[at]?.['role'] ?? null
  const message = messages[index] ?? {}
  return JSON.stringify([
    ...[role(index), role(index - 1), role(index + 1)],
    ...[index === 0, hasText(message['content'] ?? ''), hasCalls(message), 'reasoning' in message],
  ])
}

/** Appends to a string, or to the text of the last part that has one. */
export function appendToText(content: JsonValue, suffix: string): JsonValue {
  if (typeof content === 'string') return content + suffix
  if (!Array.isArray(content)) return content
  const at = content.findLastIndex((part: JsonValue) => isJsonObject(part) && typeof part['text'] === 'string')
  return content.map((part: JsonValue, i) =>
    i === at && isJsonObject(part) ? { ...part, text: String(part['text']) + suffix } : part,
  )
}
