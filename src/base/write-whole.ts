/**
 * Writes a file all or nothing: the file is complete or as it was before, also when the disk is full or the program is
 * stopped.
 */
import { realpath, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { toWriteError } from './errors/file-errors.js'
import { moveFile } from './util/move-file.js'

/**
 * Writes a text, whole or in parts as they come, readable as the process's mask has it; what is no plain file, as a pipe or `/dev/null`, is written to as it is.
 *
 * @throws {AppError} `disk_full`; {InvalidRequestError} `file_unwritable`
 */
export async function writeWhole(path: string, text: string | Iterable<string> | AsyncIterable<string>): Promise<void> {
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
