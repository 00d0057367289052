/**
 * A folder and those above it, as `mkdir -p` makes them.
 *
 * Node's own `mkdir` with `recursive` never returns where a file system refuses new names with ENOENT, as procfs does: it goes up
 * to the parent, which exists, and down again, for ever.
 */
import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Creates `path` and what is missing above it; a folder that exists stays as it is.
 *
 * @param mode of the folders that are made. Default 0o777, less the process's mask
 * @throws {NodeJS.ErrnoException} as `mkdir` does, for the first folder that cannot be made
 */
export async function createFolders(path: string, mode = 0o777): Promise<void> {
  if (await isFolder(path)) return
  const parent = dirname(path)
  if (parent !== path) await createFolders(parent, mode)
  try {
    await mkdir(path, { mode })
  } catch (error) {
    // somebody else was faster
    if (!(await isFolder(path))) throw error
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() === true
}
