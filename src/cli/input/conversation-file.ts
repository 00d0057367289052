/**
 * Supervised training data checked before it is uploaded: JSON Lines of `{"messages": […], "tools": […]?}`.
 *
 * The file is streamed line by line, so its size does not matter. Only mistakes of hand-made files are looked for; the
 * service checks everything.
 */
import { createInterface } from 'node:readline'
import { pipeline, Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { createGunzip } from 'node:zlib'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { UsageError } from '../command/errors.js'

import { inputProblems, MAX_PROBLEMS, messageOf } from './input-file.js'

/** What is known of a checked file. */
export interface ConversationFile {
  readonly rowCount: number
  readonly assistantTurnCount: number
}

/**
 * Checks every line.
 *
 * @param name the file's name in messages
 * @throws {UsageError} `input_invalid` with the first ten problems as `file:line: path: what was expected`
 */
export async function checkConversations(data: Blob, name: string): Promise<ConversationFile> {
  let assistantTurnCount = 0
  const rowCount = await checkRows(data, name, (line) => {
    const result = checkLine(line)
    if (typeof result === 'string') return result
    assistantTurnCount += result
    return null
  })
  return { rowCount, assistantTurnCount }
}

/**
 * Checks the rows of a preference job: `{"prompt", "chosen", "rejected"}`, each a text or a list of messages.
 *
 * @returns how many there are
 * @throws {UsageError} as `checkConversations`
 */
export async function checkPreferences(data: Blob, name: string): Promise<number> {
  return checkRows(data, name, (line) => {
    const row = parseRow(line)
    if (typeof row === 'string') return row
    for (const key of ['chosen', 'rejected', ...(row['prompt'] === undefined ? [] : ['prompt'])]) {
      const value = row[key]
      const isRight = typeof value === 'string' || (Array.isArray(value) && value.length > 0)
      if (!isRight) return `${key}: must be text or a list of messages that is not empty`
    }
    const isWhole = row['prompt'] === undefined && typeof row['chosen'] === 'string'
    return isWhole ? 'prompt: must be there when the answers are texts' : null
  })
}

/** Runs over the lines that are not blank. @param check what is wrong with a line, or null @returns how many there are */
async function checkRows(data: Blob, name: string, check: (line: string) => string | null): Promise<number> {
  const problems: string[] = []
  let total = 0
  let rowCount = 0
  let lineNumber = 0
  const input = await openRows(data)
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  let failure: Error | null = null
  // readline ends with its input, but not with an input that fails
  input.on('error', (error) => {
    failure = error
    lines.close()
  })
  for await (const text of lines) {
    lineNumber += 1
    const line = lineNumber === 1 && text.startsWith('\ufeff') ? text.slice(1) : text
    if (line.trim() === '') continue
    rowCount += 1
    const problem = check(line)
    if (problem === null) continue
    total += 1
    if (problems.length < MAX_PROBLEMS) problems.push(`${name}:${lineNumber}: ${problem}`)
  }
  const hint = 'trainyard help files shows the format'
  if (failure !== null) {
    throw new UsageError('input_invalid', `${name} cannot be decompressed: ${messageOf(failure)}`, { hint })
  }
  if (total > 0) throw inputProblems(problems, total, hint)
  if (rowCount === 0) throw new UsageError('input_invalid', `${name} holds no conversation`, { hint })
  return rowCount
}

/** The rows as text; a file that begins like a gzip file is decompressed on the way. */
async function openRows(data: Blob): Promise<Readable> {
  const bytes = Readable.fromWeb(data.stream() as ReadableStream)
  const [first, second] = new Uint8Array(await data.slice(0, 2).arrayBuffer())
  if (first !== 0x1f || second !== 0x8b) return bytes
  const content = createGunzip()
  // an error of either ends both, and is thrown where the lines are read
  pipeline(bytes, content, () => undefined)
  return content
}

/** Number of assistant turns, or what is wrong. */
function checkLine(line: string): number | string {
  const row = parseRow(line)
  if (typeof row === 'string') return row
  const messages = row['messages']
  if (!Array.isArray(messages) || messages.length === 0) return 'messages: must be an array that is not empty'
  let count = 0
  for (const [i, message] of messages.entries()) {
    if (!isJsonObject(message) || typeof message['role'] !== 'string') {
      return `messages[${i}].role: must be text such as "user" or "assistant"`
    }
    if (message['role'] === 'assistant') count += 1
  }
  return count > 0 ? count : 'messages: must hold an assistant message to learn from'
}

/** The object of a line, or what is wrong. */
function parseRow(line: string): JsonObject | string {
  let row: JsonValue
  try {
    row = JSON.parse(line) as JsonValue
  } catch (error) {
    return `not valid JSON: ${messageOf(error)}`
  }
  return isJsonObject(row) ? row : 'must be a JSON object'
}
