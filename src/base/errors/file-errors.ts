/**
 * Turns a failed file write into an error for whoever named the path: which part of the path is wrong, or that the
 * disk is full.
 */
import { stat } from 'node:fs/promises'
import { type AppError, InvalidRequestError, toFullDiskError } from './errors.js'

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  EEXIST: 'a part of its path is a file, expected a folder',
  EFBIG: 'it would be larger than this user or the file system allows',
  EISDIR: 'it is a folder, expected a file',
  ENAMETOOLONG: 'its name is too long',
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'a part of its path is a file, expected a folder',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
}

/**
 * The error a person can act on for a file or folder that they named and that cannot be written.
 *
 * @returns an `AppError` of code `file_unwritable` or `disk_full`; null for any other error, as one of a connection
 */
export function toWriteError(error: unknown, path: string): AppError | null {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string' || !('syscall' in error)) {
    return null
  }
  const full = toFullDiskError(error, `"${path}"`)
  if (full !== null) return full
  const reason = REASONS[error.code]
  if (reason === undefined) return null
  return new InvalidRequestError('file_unwritable', `"${path}" cannot be written: ${reason}`, {
    hint: 'choose another one, in a folder that this user may create or write',
    cause: error,
  })
}

/** @throws {InvalidRequestError} `file_unwritable` for a folder where a file was meant, `example` being a file in it */
export async function assertNoFolder(path: string, example: string): Promise<void> {
  if ((await stat(path).catch(() => null))?.isDirectory() !== true) return
  throw new InvalidRequestError('file_unwritable', `"${path}" is a folder, expected a file`, { hint: example })
}
