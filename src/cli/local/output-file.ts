/**
 * A file a command was told to write. Whether it can be is found out before the work; it is whole or as it was, also when the disk
 * is full or the command is stopped.
 */
import { access, constants, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { assertNoFolder, toWriteError } from '#base/errors/file-errors.js'
import { moveFile } from '#base/util/move-file.js'

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

/**
 * Writes a text, whole or in parts, readable as the process's mask has it; what is no plain file, as a pipe or `/dev/null`, is written to as it is.
 *
 * @throws {AppError} `disk_full`; {InvalidRequestError} `file_unwritable`
 */
export async function writeWhole(path: string, text: string | readonly string[]): Promise<void> {
  try {
    const facts = await stat(path).catch(() => null)
    if (facts !== null && !facts.isFile()) return await writeFile(path, text)
    // behind a link stands the file that is meant
    const target = facts === null ? path : await realpath(path)
    const partial = join(dirname(target), `.${basename(target)}.${process.pid}.partial`)
    try {
      await writeFile(partial, text, { flush: true, ...(facts === null ? {} : { mode: facts.mode & 0o777 }) })
      await moveFile(partial, target)
    } catch (error) {
      await rm(partial, { force: true }).catch(() => undefined)
      throw error
    }
  } catch (error) {
    throw toWriteError(error, path) ?? error
  }
}
