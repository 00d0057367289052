/**
 * Prompts to answer, from a file: JSON Lines of `{"prompt": …}` or `{"messages": […]}`, or one plain prompt per line.
 *
 * Rows of a job, of other trainers, and of one JSON array are asked, too, by what `trainyard data convert --to prompts` makes of them.
 * Other fields of a row are kept for the reward; `answer` is what the built-in rewards compare with. A row's `completion`, as supervised
 * jobs read it, is its answer.
 */

import { parseExact, parseExactRow } from '#base/json/exact-json.js'
import { describeJsonFault } from '#base/json/json-fault.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { createRowConverter } from '#contract/wire/training/row-forms/convert-rows.js'
import type { Message } from '#sdk/rl/trajectory.js'
import { displayPath, inputProblems, MAX_PROBLEMS, messageOf, readInput } from '../input/input-file.js'
import { UsageError } from '../terminal/errors.js'
import type { Io } from '../terminal/io.js'

/** One prompt with the row it came from. */
export interface PromptRow {
  readonly messages: readonly Message[]
  readonly row: JsonObject
}

/**
 * Reads and checks a file of prompts.
 *
 * @param system put before every row that has no system message
 * @param isExact whether every number keeps its text, as graders write it into what they compare
 * @throws {UsageError} `input_invalid` with the first ten problems as `file:line: what was expected`
 */
export async function readPrompts(
  path: string,
  io: Io,
  system: string | undefined,
  isExact = false,
): Promise<readonly PromptRow[]> {
  const parse = isExact ? parseExact : parseExactRow
  const problems: string[] = []
  let total = 0
  const text = await readInput(path, io)
  const array = rowsOfArray(text, parse)
  const lines: readonly (string | JsonValue)[] = array ?? text.split('\n')
  const rows = lines.flatMap((line, i): readonly PromptRow[] => {
    if (typeof line === 'string' && line.trim() === '') return []
    const row = typeof line === 'string' ? readLine(line, parse) : readRow(line)
    if (typeof row !== 'string') return [withSystem(row, system)]
    total += 1
    const place = array === null ? `:${i + 1}` : `[${i}]`
    if (problems.length < MAX_PROBLEMS) problems.push(`${displayPath(path)}${place}: ${row}`)
    return []
  })
  const hint = 'trainyard help files shows the format'
  if (total > 0) throw inputProblems(problems, total, hint)
  if (rows.length === 0) throw new UsageError('input_invalid', `${displayPath(path)} holds no prompt`, { hint })
  return rows
}

/** The rows of a file that is one JSON array of objects; null for any other, whose lines may be plain prompts. */
function rowsOfArray(text: string, parse: typeof parseExact): readonly JsonValue[] | null {
  if (!text.trimStart().startsWith('[')) return null
  try {
    const value = parse(text)
    return Array.isArray(value) && value.length > 0 && value.every(isJsonObject) ? value : null
  } catch {
    return null
  }
}

function readLine(line: string, parse: typeof parseExact): PromptRow | string {
  if (!line.trimStart().startsWith('{')) {
    const prompt = line.trim()
    return { messages: [{ role: 'user', content: prompt }], row: { prompt } }
  }
  try {
    return readRow(parse(line))
  } catch (error) {
    return `not valid JSON: ${describeJsonFault(line) ?? messageOf(error)}`
  }
}

/** The row, or what is wrong with it. */
function readRow(given: JsonValue): PromptRow | string {
  if (!isJsonObject(given)) return 'must be an object with "prompt" or "messages"'
  if (Array.isArray(given['trajectories'])) {
    return 'is a trajectory group, which trainyard train rl trains on; expected an object with "prompt" or "messages"'
  }
  const made = isAskedAsItIs(given) ? null : createRowConverter('prompt').convert(given)
  const row = (made !== null && 'rows' in made ? made.rows[0] : null) ?? given
  const { prompt, messages, completion } = row
  if (typeof prompt === 'string') {
    const answer = row['answer'] ?? (typeof completion === 'string' ? completion : null)
    return { messages: [{ role: 'user', content: prompt }], row: answer === null ? row : { ...row, answer } }
  }
  if (!Array.isArray(messages) || messages.length === 0) return 'must have "prompt" as text or "messages" as an array'
  const isWhole = messages.every((message) => isJsonObject(message) && typeof message['role'] === 'string')
  return isWhole ? { messages: messages as Message[], row } : 'messages: every message needs a role'
}

/** A prompt, or messages up to what is to be answered: those with an `answer` of their own, or that end with no answer of a model. */
function isAskedAsItIs(row: JsonObject): boolean {
  if (typeof row['prompt'] === 'string') return true
  const { messages } = row
  const last: JsonValue = Array.isArray(messages) ? (messages.at(-1) as JsonValue) : null
  return isJsonObject(last) && (last['role'] !== 'assistant' || (row['answer'] ?? null) !== null)
}

function withSystem({ messages, row }: PromptRow, system: string | undefined): PromptRow {
  if (system === undefined || messages.some(({ role }) => role === 'system')) return { messages, row }
  return { messages: [{ role: 'system', content: system }, ...messages], row }
}
