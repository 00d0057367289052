/**
 * System messages where a template takes none: their text joins the turn beside them, so that the prompt before it stays as it was.
 *
 * Agents of Anthropic's API send such turns anywhere: between two questions, between a call and its result, last. The text goes to the end of
 * the user's turn or result before it, else to the one behind it (behind the last result of a call), else into a user's turn of its own. What
 * is folded stands between `<system-reminder>` tags, as those agents mark such text themselves. Knows messages as they came, not templates.
 */
import { isJsonObject, type JsonValue } from '#base/util/json.js'

const OPEN = '<system-reminder>'
const CLOSE = '</system-reminder>'

/**
 * The same conversation written otherwise, in the order in which a template is asked for it: as it is, with system messages at its beginning
 * only, with none.
 */
export function* foldings(messages: readonly JsonValue[]): Generator<readonly JsonValue[]> {
  yield messages
  const leading = messages.findIndex((message) => !isSystem(message))
  const first = leading === -1 ? messages.length : leading
  if (first > 1 || messages.some((message, at) => at >= first && isSystem(message))) {
    const system = messages.slice(0, first)
    const joined = system.length === 0 ? [] : [withContent(system[0], contentOfAll(system))]
    yield [...joined, ...fold(messages.slice(first))]
  }
  if (first > 0) yield withFirst(messages.slice(0, first), fold(messages.slice(first)))
}

const hasRole = (message: JsonValue | undefined, ...roles: readonly string[]): boolean =>
  isJsonObject(message) && roles.includes(String(message['role']))
const isSystem = (message: JsonValue | undefined): boolean => hasRole(message, 'system')
const isResult = (message: JsonValue | undefined): boolean => hasRole(message, 'tool', 'function')
const isUser = (message: JsonValue | undefined): boolean => hasRole(message, 'user')
const contentOf = (message: JsonValue | undefined): JsonValue =>
  isJsonObject(message) ? (message['content'] ?? '') : ''

/** The turn with another content. */
const withContent = (message: JsonValue | undefined, content: JsonValue): JsonValue =>
  isJsonObject(message) ? { ...message, content } : null

/** System messages of the beginning as one. */
const contentOfAll = (system: readonly JsonValue[]): JsonValue => system.map(contentOf).reduce(joinContents, '')

function fold(messages: readonly JsonValue[]): JsonValue[] {
  const folded: JsonValue[] = []
  /** Text that waits for the turn behind it. */
  let waiting: JsonValue | null = null
  for (const [at, message] of messages.entries()) {
    const content = contentOf(message)
    if (isSystem(message)) {
      const text = marked(content)
      const before = folded.at(-1)
      if (waiting === null && (isUser(before) || isResult(before))) {
        folded[folded.length - 1] = withContent(before, joinContents(contentOf(before), text))
      } else waiting = waiting === null ? text : joinContents(waiting, text)
    } else if (waiting !== null && isUser(message)) {
      folded.push(withContent(message, joinContents(waiting, content)))
      waiting = null
    } else if (waiting !== null && isResult(message)) {
      const isLast = !isResult(messages[at + 1])
      folded.push(isLast ? withContent(message, joinContents(content, waiting)) : message)
      if (isLast) waiting = null
    } else {
      if (waiting !== null) folded.push({ role: 'user', content: waiting })
      waiting = null
      folded.push(message)
    }
  }
  if (waiting !== null) folded.push({ role: 'user', content: waiting })
  return folded
}

/** System messages of the beginning as the first words of the user. */
function withFirst(system: readonly JsonValue[], others: readonly JsonValue[]): readonly JsonValue[] {
  const content = contentOfAll(system)
  const [first, ...rest] = others
  return isUser(first)
    ? [withContent(first, joinContents(content, contentOf(first))), ...rest]
    : [{ role: 'user', content }, ...others]
}

function marked(content: JsonValue): JsonValue {
  if (!Array.isArray(content)) {
    const text = typeof content === 'string' ? content : ''
    return text.trimStart().startsWith(OPEN) ? text : `${OPEN}\n${text}\n${CLOSE}`
  }
  return content.map((part: JsonValue) =>
    isJsonObject(part) && typeof part['text'] === 'string' ? { ...part, text: marked(part['text']) } : part,
  )
}

/** Texts, or lists of parts. */
function joinContents(first: JsonValue, second: JsonValue): JsonValue {
  if (first === '' || second === '') return first === '' ? second : first
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`
  return [...partsOf(first), ...partsOf(second)]
}

const partsOf = (content: JsonValue): readonly JsonValue[] =>
  Array.isArray(content) ? content : [{ type: 'text', text: content }]
