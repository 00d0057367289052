/**
 * Supervised training data checked before it is uploaded: JSON Lines of `{"messages": […], "tools": […]?}` or
 * of TRL's `{"prompt", "completion"}`.
 *
 * The file is streamed line by line, so its size does not matter. Only mistakes of hand-made files are looked for; the
 * service checks everything.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { findForeignFile, findForeignRow, labelOf, type RowKind } from '#contract/wire/training/row-forms.js'
import { parseRow, readRowLines } from '#formats/rows/files/row-file.js'
import { UsageError } from '../terminal/errors.js'

import { createProblems } from './input-file.js'

/** What is known of a checked file. */
export interface ConversationFile {
  readonly rowCount: number
  readonly assistantTurnCount: number
}

/**
 * Checks every line.
 *
 * @param name the file's name in messages
 * @throws {UsageError} `input_invalid` with what is wrong as `file:line: path: what was expected`, each kind once
 */
export async function checkConversations(data: Blob, name: string): Promise<ConversationFile> {
  let assistantTurnCount = 0
  const rowCount = await checkRows(data, name, 'conversation', (row) => {
    const result = checkConversation(row)
    if (typeof result === 'string') return result
    assistantTurnCount += result
    return null
  })
  return { rowCount, assistantTurnCount }
}

/**
 * Checks the rows of a preference job: `{"prompt", "chosen", "rejected"}`, each a text or a list of messages, or OpenAI's.
 *
 * @returns how many there are
 * @throws {UsageError} as `checkConversations`
 */
export async function checkPreferences(data: Blob, name: string): Promise<number> {
  return checkRows(data, name, 'preference', (row) => {
    const has = (name: string): boolean => (row[name] ?? null) !== null
    // OpenAI's rows hold their prompt in `input`, which the service looks into
    if (has('preferred_output') || has('non_preferred_output')) return null
    for (const key of ['chosen', 'rejected', ...(has('prompt') ? ['prompt'] : [])]) {
      const value = row[key]
      const isRight = typeof value === 'string' || (Array.isArray(value) && value.length > 0)
      if (!isRight) return `${key}: must be text or a list of messages that is not empty`
    }
    const isWhole = !has('prompt') && typeof row['chosen'] === 'string'
    return isWhole ? 'prompt: must be there when the answers are texts' : null
  })
}

/**
 * Checks the rows of a job with `loss_type` kto: `{"prompt", "completion", "label"}`.
 *
 * @throws {UsageError} as `checkConversations`
 */
export async function checkLabelled(data: Blob, name: string): Promise<number> {
  return checkRows(data, name, null, (row) => {
    for (const key of ['prompt', 'completion']) {
      const value = row[key] ?? null
      if (typeof value !== 'string' && !(Array.isArray(value) && value.length > 0))
        return `${key}: must be text or a list of messages that is not empty`
    }
    return labelOf(row['label']) === null ? 'label: must be true or false (or 1 or 0)' : null
  })
}

/** Runs over the lines that are not blank. @param kind null where the check knows the form @param check what is wrong with a row of the right form, or null @returns how many there are */
async function checkRows(
  data: Blob,
  name: string,
  kind: RowKind | null,
  check: (row: JsonObject) => string | null,
): Promise<number> {
  const problems = createProblems()
  let rowCount = 0
  const help = 'trainyard help files shows the format'
  let hint: string | null = null
  for await (const line of readRowLines(data, name)) {
    const file = rowCount === 0 ? findForeignFile(line.text) : null
    if (file !== null) throw new UsageError('input_invalid', `${name} ${file.problem}`, { hint: file.hint })
    rowCount += 1
    const row = parseRow(line.text)
    const foreign = typeof row === 'string' || kind === null ? null : findForeignRow(row, kind)
    const problem = typeof row === 'string' ? row : (foreign?.problem ?? check(row))
    if (problem === null) continue
    hint ??= foreign?.hint ?? null
    problems.add(`${name}:${line.number}`, problem)
  }
  problems.throwIfAny(hint ?? help)
  if (rowCount === 0) throw new UsageError('input_invalid', `${name} holds no conversation`, { hint: help })
  return rowCount
}

/** Number of assistant turns to learn from, or what is wrong. */
function checkConversation(row: JsonObject): number | string {
  const messages = row['messages']
  const has = (name: string): boolean => (row[name] ?? null) !== null
  // published data sets of messages often keep their first one as `prompt` beside them
  if (has('completion') || (has('prompt') && !has('messages'))) return checkPair(row)
  return checkTurns(messages ?? null, 'messages', 'must hold an assistant message to learn from')
}

/** A prompt and its completion: two texts, or two lists of messages. */
function checkPair({ prompt = null, completion = null, ...others }: JsonObject): number | string {
  if ((others['messages'] ?? null) !== null) return 'messages: must not be there beside prompt and completion'
  if (typeof prompt === 'string' && typeof completion === 'string') return 1
  if (prompt === null) return 'prompt: must be there beside completion'
  if (completion === null) {
    return 'completion: must be there beside prompt, as what is learned; prompts alone are for trainyard rollout, which makes answers to them'
  }
  if (typeof prompt === 'string' || typeof completion === 'string') {
    return 'completion: must be text as prompt is, or both lists of messages'
  }
  const start = checkTurns(prompt, 'prompt', null)
  return typeof start === 'string' ? start : checkTurns(completion, 'completion', 'must hold an assistant message')
}

/** Number of assistant turns in a list, or what is wrong. @param lack what to say when there is none; null: that is fine */
function checkTurns(messages: JsonValue, name: string, lack: string | null): number | string {
  if (!Array.isArray(messages) || messages.length === 0) return `${name}: must be an array that is not empty`
  let count = 0
  for (const [i, message] of messages.entries()) {
    if (!isJsonObject(message) || typeof message['role'] !== 'string') {
      return `${name}[${i}].role: must be text such as "user" or "assistant"`
    }
    if (message['role'] === 'assistant') count += 1
  }
  return count > 0 || lack === null ? count : `${name}: ${lack}`
}
