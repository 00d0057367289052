/**
 * Prompts to answer, from a file of rows in any form (`formats/rows/files/row-file.ts`), or one plain prompt per line.
 *
 * Rows of a job and of other trainers are asked, too, by what `trainyard data convert --to prompts` makes of them.
 * Other fields of a row are kept for the reward; `answer` is what the built-in rewards compare with. A row's `completion`, as supervised
 * jobs read it, is its answer.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { type ColumnMap, describeMap } from '#cli/input/column-map.js'
import { createProblems, displayPath, openInput } from '#cli/input/input-file.js'
import { readMappedRows } from '#cli/input/mapped-rows.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Io } from '#cli/terminal/io.js'
import { createRowConverter } from '#contract/wire/training/row-forms/convert-rows.js'
import type { PlacedRow } from '#formats/rows/files/row-file.js'
import type { Message } from '#sdk/rl/trajectory.js'

/** One prompt with the row it came from. */
export interface PromptRow {
  readonly messages: readonly Message[]
  readonly row: JsonObject
}

interface PromptOptions {
  /** Put before every row that has no system message. */
  readonly system?: string | undefined
  /** What columns are called for. */
  readonly map?: ColumnMap | undefined
  /** Whether every number keeps its text, as graders write it into what they compare. */
  readonly isExact?: boolean
  /** Told what was recognised by what it holds. */
  readonly say?: (sentence: string) => void
}

/**
 * Reads and checks a file of prompts.
 *
 * @throws {UsageError} `input_invalid` with what is wrong as `file:line: what was expected`, each kind once
 */
export async function readPrompts(
  path: string,
  io: Io,
  { system, map, isExact, say }: PromptOptions = {},
): Promise<readonly PromptRow[]> {
  const name = displayPath(path)
  const problems = createProblems()
  const rows: PromptRow[] = []
  const onRecognised = (found: ColumnMap): void => say?.(`Read ${describeMap(found)}; --map says otherwise`)
  const options = { map, takesText: true, isExact, onRecognised }
  for await (const placed of readMappedRows(await openInput(path, io), name, options)) {
    const row = readPlaced(placed)
    if (typeof row === 'string') problems.add(placed.where, row)
    else rows.push(withSystem(row, system))
  }
  const hint = 'trainyard help files shows the format'
  problems.throwIfAny(hint)
  if (rows.length === 0) throw new UsageError('input_invalid', `${name} holds no prompt`, { hint })
  return rows
}

function readPlaced({ row, text }: PlacedRow): PromptRow | string {
  if (typeof row !== 'string') return readRow(row)
  if (text === undefined || text.trimStart().startsWith('{')) return row
  const prompt = text.trim()
  return { messages: [{ role: 'user', content: prompt }], row: { prompt } }
}

/** The row, or what is wrong with it. */
function readRow(given: JsonObject): PromptRow | string {
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
