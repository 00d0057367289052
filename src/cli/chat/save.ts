/**
 * Conversations on disk: appended as groups of one trajectory, the form that `trainyard train rl` and `log` read.
 */
import { appendFile } from 'node:fs/promises'
import { parseExact, parseExactRow, stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject } from '#base/util/json.js'
import { type isChoice, type Message, type Trajectory, TrajectoryGroup, toMessage } from '#sdk/rl/trajectory.js'
import { displayPath, messageOf, readInput } from '../input/input-file.js'
import { UsageError } from '../terminal/errors.js'
import type { Io } from '../terminal/io.js'

/** Appends a conversation with its choices and log-probabilities; reward 0, for you to change. */
export async function saveConversation(path: string, trajectory: Trajectory): Promise<void> {
  await saveGroup(path, new TrajectoryGroup([trajectory]))
}

/** Appends a group: several answers to the same question. */
export async function saveGroup(path: string, group: TrajectoryGroup): Promise<void> {
  try {
    await appendFile(path, `${stringifyExact(group.toJSON())}\n`)
  } catch (cause) {
    throw new UsageError('file_not_written', `${displayPath(path)} cannot be written: ${messageOf(cause)}`, { cause })
  }
}

/**
 * The last conversation of a file that was saved, or a JSON array of messages.
 *
 * @throws {UsageError} `input_invalid`
 */
export async function loadConversation(path: string, io: Io): Promise<readonly Message[]> {
  const text = (await readInput(path, io)).trim()
  const source = text.startsWith('[') ? text : (text.split('\n').at(-1) ?? '')
  const value = parse(source, path, parseExactRow)
  const trajectories = isJsonObject(value) ? value['trajectories'] : undefined
  const first: unknown = Array.isArray(trajectories) ? trajectories[0] : undefined
  const messages = Array.isArray(value) ? value : isJsonObject(first) ? first['messages_and_choices'] : undefined
  if (!Array.isArray(messages)) {
    throw new UsageError('input_invalid', `${displayPath(path)} holds no conversation`, {
      hint: 'a file that /save wrote, or a JSON array of messages',
    })
  }
  return (messages as Parameters<typeof isChoice>[0][]).map(toMessage)
}

/** A JSON file: tools or a schema. */
export async function loadJson(path: string, io: Io): Promise<unknown> {
  return parse(await readInput(path, io), path, parseExact)
}

function parse(source: string, path: string, read: (text: string) => unknown): unknown {
  try {
    return read(source)
  } catch (cause) {
    throw new UsageError('input_invalid', `${displayPath(path)} is not valid JSON: ${messageOf(cause)}`, { cause })
  }
}
