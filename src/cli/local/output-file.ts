/**
 * Checks, before the work begins, that the file a command was told to write can be written. `writeWhole` writes it.
 */
import { access, constants, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { assertNoFolder, toWriteError } from '#base/errors/file-errors.js'

/**
 * Refuses what cannot be written, before anything was done for it.
 *
 * @throws {InvalidRequestError} `file_unwritable`
 */
export async function assertWritable(path: string): Promise<void> {
  await assertNoFolder(path, `name a file in it: ${join(path, 'groups.jsonl')}`)
  try {
    const isThere = (await stat(path).catch(() => null)) !== null
    await access(isThere ? path : dirname(path), constants.W_OK)
  } catch (error) {
    throw toWriteError(error, path) ?? error
  }
}
