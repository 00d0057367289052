/**
 * Saves a checkpoint's files as a folder: into `<target>.partial` first, each file's size and digest checked, then renamed.
 *
 * A file that is made while it is sent has no digest beforehand; its length tells whether it is whole. A file already complete in the
 * partial folder is not fetched again. File names from the server must be plain names, so nothing is ever written outside the target.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { ConflictError } from '#base/errors/errors.js'
import { toWriteError } from '#base/errors/file-errors.js'
import { createFolders } from '#base/util/create-folders.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import type { CheckpointFileEntry } from '#contract/wire/checkpoints.js'
import { ProtocolError } from '#sdk/client/errors.js'

export interface DownloadRequest {
  /** Folder to create. */
  readonly target: string
  readonly files: readonly CheckpointFileEntry[]
  /** Opens the body of one file. */
  readonly openFile: (name: string) => Promise<Response>
  /** Put files into an existing folder, replacing those of the same name. */
  readonly isForced: boolean
  readonly onProgress: (name: string, doneBytes: number, totalBytes: number) => void
}

/**
 * Downloads all files; either the whole folder appears or none of it.
 *
 * @throws {AppError} `file_unwritable`, `disk_full`; {ConflictError} `target_exists` unless forced; {ProtocolError} when a name is unsafe or a digest does not match
 */
export async function downloadFiles(request: DownloadRequest): Promise<void> {
  for (const { name } of request.files) {
    if (!/^[\w][\w.-]{0,200}$/.test(name)) {
      throw new ProtocolError(`the server named a file "${name}", which is not a plain file name`)
    }
  }
  const isThere = await hasEntries(request.target)
  if (isThere && !request.isForced) {
    throw new ConflictError('target_exists', `${request.target} exists already`, {
      hint: 'add --force to replace its files, or choose another folder with -o',
    })
  }
  const partial = `${request.target}.partial`
  try {
    await createFolders(partial)
    for (const file of request.files) await downloadFile(file, partial, request)
    await moveIntoPlace(partial, request)
  } catch (error) {
    throw toWriteError(error, request.target) ?? error
  }
}

async function downloadFile(file: CheckpointFileEntry, folder: string, request: DownloadRequest): Promise<void> {
  const path = join(folder, file.name)
  const expected = file.sha256?.toLowerCase() ?? null
  if (expected !== null && (await digestOf(path)) === expected) return
  const response = await request.openFile(file.name)
  const hash = createHash('sha256')
  const handle = await open(path, 'w')
  let doneBytes = 0
  try {
    const reader = response.body?.getReader()
    for (;;) {
      const chunk = (await reader?.read())?.value
      if (chunk === undefined) break
      hash.update(chunk)
      // a single write may take less than it was given, where the disk is nearly full
      await handle.writeFile(chunk)
      doneBytes += chunk.byteLength
      if (doneBytes > file.size_bytes) throw new ProtocolError(`${file.name} is longer than the server announced`)
      request.onProgress(file.name, doneBytes, file.size_bytes)
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
  const digest = hash.digest('hex')
  const isWhole = expected === null ? doneBytes === file.size_bytes : digest === expected
  if (!isWhole) {
    await rm(path, { force: true })
    const damage =
      expected === null
        ? `expected ${file.size_bytes} bytes, got ${doneBytes}`
        : `expected sha256 ${expected}, got ${digest}`
    throw new ProtocolError(`${file.name} arrived damaged: ${damage}`)
  }
}

async function moveIntoPlace(partial: string, request: DownloadRequest): Promise<void> {
  if (request.isForced && (await hasEntries(request.target))) {
    for (const { name } of request.files) await moveFile(join(partial, name), join(request.target, name))
    await removeTree(partial)
    return
  }
  await moveFile(partial, request.target)
}

async function hasEntries(path: string): Promise<boolean> {
  const facts = await stat(path).catch(() => null)
  if (facts === null) return false
  return !facts.isDirectory() || (await readdir(path)).length > 0
}

async function digestOf(path: string): Promise<string | null> {
  const hash = createHash('sha256')
  try {
    await pipeline(createReadStream(path), hash)
    return hash.digest('hex')
  } catch {
    return null
  }
}
