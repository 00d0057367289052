/**
 * Syncs a folder to the disk. After a file is renamed into a folder, the new name survives a loss of power only once the folder is
 * synced too.
 *
 * Not every system can do it: Windows does not open folders, or refuses the sync (EPERM), and so do some network file systems. There
 * the rename is done all the same and the file itself was synced, so storing goes on.
 */
import { type FileHandle, open } from 'node:fs/promises'

/** What is said where a folder cannot be opened or synced at all; a disk that failed says something else. */
const CANNOT = new Set(['EPERM', 'EACCES', 'EISDIR', 'EINVAL', 'EBADF', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

/** What is needed of an open folder. */
export type FolderHandle = Pick<FileHandle, 'sync' | 'close'>

/**
 * Syncs `path` where that can be done.
 *
 * @param openFolder how it is opened. Default: for reading
 * @throws {NodeJS.ErrnoException} what the disk says when it fails or the folder is gone: EIO, ENOSPC, ENOENT …
 */
export async function syncFolder(
  path: string,
  openFolder: (path: string) => Promise<FolderHandle> = (folder) => open(folder, 'r'),
): Promise<void> {
  let handle: FolderHandle
  try {
    handle = await openFolder(path)
  } catch (error) {
    if (isImpossible(error)) return
    throw error
  }
  try {
    await handle.sync()
  } catch (error) {
    if (!isImpossible(error)) throw error
  } finally {
    await handle.close()
  }
}

function isImpossible(error: unknown): boolean {
  return error instanceof Error && 'code' in error && CANNOT.has(String(error.code))
}
