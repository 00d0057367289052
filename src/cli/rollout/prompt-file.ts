/**
 * Prompts to answer, from a file: JSON Lines of `{"prompt": …}` or `{"messages": […]}`, or one plain prompt per line.
 *
 * Other fields of a row are kept for the reward; `answer` is what the built-in rewards compare with. A row's `completion`, as supervised
 * jobs read it, is its answer.
 */

import { parseExactRow } from '#base/json/exact-json.js'
import type { JsonObject } from '#base/util/json.js'
import { isJsonObject } from '#base/util/json.js'
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
 * @throws {UsageError} `input_invalid` with the first ten problems as `file:line: what was expected`
 */
export async function readPrompts(path: string, io: Io, system: string | undefined): Promise<readonly PromptRow[]> {
  const problems: string[] = []
  let total = 0
  const rows = (await readInput(path, io)).split('\n').flatMap((line, i): readonly PromptRow[] => {
    if (line.trim() === '') return []
    const row = readRow(line)
    if (typeof row !== 'string') return [withSystem(row, system)]
    total += 1
    if (problems.length < MAX_PROBLEMS) problems.push(`${displayPath(path)}:${i + 1}: ${row}`)
    return []
  })
  const hint = 'trainyard help files shows the format'
  if (total > 0) throw inputProblems(problems, total, hint)
  if (rows.length === 0) throw new UsageError('input_invalid', `${displayPath(path)} holds no prompt`, { hint })
  return rows
}

/** The row, or what is wrong with it. */
function readRow(line: string): PromptRow | string {
  if (!line.trimStart().startsWith('{')) {
    const prompt = line.trim()
    return { messages: [{ role: 'user', content: prompt }], row: { prompt } }
  }
  let row: unknown
  try {
    row = parseExactRow(line)
  } catch (error) {
    return `not valid JSON: ${messageOf(error)}`
  }
  if (!isJsonObject(row)) return 'must be an object with "prompt" or "messages"'
  const { prompt, messages, completion } = row
  if (typeof prompt === 'string') {
    const answer = row['answer'] ?? (typeof completion === 'string' ? completion : null)
    return { messages: [{ role: 'user', content: prompt }], row: answer === null ? row : { ...row, answer } }
  }
  if (Array.isArray(row['trajectories'])) {
    return 'is a trajectory group, which trainyard train rl trains on; expected an object with "prompt" or "messages"'
  }
  if (!Array.isArray(messages) || messages.length === 0) return 'must have "prompt" as text or "messages" as an array'
  const isWhole = messages.every((message) => isJsonObject(message) && typeof message['role'] === 'string')
  return isWhole ? { messages: messages as Message[], row } : 'messages: every message needs a role'
}

function withSystem({ messages, row }: PromptRow, system: string | undefined): PromptRow {
  if (system === undefined || messages.some(({ role }) => role === 'system')) return { messages, row }
  return { messages: [{ role: 'system', content: system }, ...messages], row }
}
