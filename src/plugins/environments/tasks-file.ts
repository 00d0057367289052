/**
 * Tasks of a file (`--tasks-file`): JSON Lines, an object each. What is in it is the source's to say; its key is all of it.
 */
import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { Message } from '#sdk/rl/trajectory.js'
import type { EnvironmentTask } from './source.js'
import { seedOf } from './tasks.js'

const MOST_BYTES = 256 * 1024 * 1024
const MOST_TASKS = 1_000_000

/**
 * @param check what is wrong with a row; null: nothing
 * @throws {InvalidRequestError} `tasks_invalid` with file and line
 */
export async function readTasks(
  path: string,
  seed: number,
  check: (row: JsonObject) => string | null,
): Promise<readonly EnvironmentTask[]> {
  const facts = await stat(path).catch(() => null)
  if (facts?.isFile() !== true) throw invalid(`${path} is no file`)
  if (facts.size > MOST_BYTES)
    throw invalid(`${path} has ${facts.size} bytes, more than the ${MOST_BYTES} that are read`)
  const lines = (await readFile(path, 'utf8')).split('\n')
  if (lines.length > MOST_TASKS) throw invalid(`${path} has more than ${MOST_TASKS} lines`)
  const tasks = lines.flatMap((line, i) => {
    if (line.trim() === '') return []
    const row = parse(line)
    const fault = row === null ? 'expected a JSON object' : check(row)
    if (row === null || fault !== null) throw invalid(`${path}:${i + 1}: ${fault}`)
    return [toTask(row, seed)]
  })
  if (tasks.length === 0) throw invalid(`${path} holds no task`)
  return tasks
}

/** A task that is a row. */
export function toTask(row: JsonObject, seed: number): EnvironmentTask {
  const key = createHash('sha256').update(JSON.stringify(row)).digest('hex').slice(0, 16)
  return { key, seed: seedOf(seed, key), facts: row }
}

/** What a row asks. */
export function messagesOf({ prompt, messages }: JsonObject): readonly Message[] | null {
  if (typeof prompt === 'string') return [{ role: 'user', content: prompt }]
  const isWhole =
    Array.isArray(messages) &&
    messages.length > 0 &&
    messages.every((each) => isJsonObject(each) && typeof each['role'] === 'string')
  return isWhole ? (messages as readonly Message[]) : null
}

function parse(line: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(line)
    return isJsonObject(value) ? value : null
  } catch {
    return null
  }
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('tasks_invalid', message, {
    param: '--tasks-file',
    hint: 'JSON Lines with a task per line, for example {"prompt":"2+2?","answer":"4"}',
  })
}
