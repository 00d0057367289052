/**
 * Tools from a file: the JSON array of chat requests, or bare functions.
 */

import { isJsonObject } from '#base/util/json.js'
import type { Tool } from '#sdk/rl/trajectory.js'
import { displayPath } from '../input/input-file.js'
import { UsageError } from '../terminal/errors.js'
import type { Io } from '../terminal/io.js'
import { loadJson } from './save.js'

/** @throws {UsageError} `input_invalid` naming the element that is none */
export async function readTools(path: string, io: Io): Promise<readonly Tool[]> {
  const value = await loadJson(path, io)
  if (!Array.isArray(value))
    throw new UsageError('input_invalid', `${displayPath(path)} must hold a JSON array of tools`)
  return value.map((entry: unknown, i): Tool => {
    const described = isJsonObject(entry) && isJsonObject(entry['function']) ? entry['function'] : entry
    if (!isJsonObject(described) || typeof described['name'] !== 'string') {
      throw new UsageError('input_invalid', `${displayPath(path)}: [${i}] must be a function with a name`)
    }
    return { type: 'function', function: described as Tool['function'] }
  })
}
