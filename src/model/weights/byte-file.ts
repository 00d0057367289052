/**
 * Random-access reads of one file, bounds-checked, for the weight formats.
 *
 * Knows nothing of formats. Only regular files are opened: a pipe or a device would block for ever.
 */
import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { WeightsError } from '#base/errors/errors.js'
import { findForeignBytes, SNIFFED_BYTES } from '#base/foreign-file.js'

/** Largest single read; the operating system returns at most 2 GiB at a time. */
const READ_CHUNK_BYTES = 256 * 1024 * 1024
const HASH_CHUNK_BYTES = 4 * 1024 * 1024

/** An open file whose size is known. Close it when done. */
export interface ByteFile {
  readonly path: string
  readonly sizeBytes: number
  /**
   * Reads exactly `length` bytes into a fresh buffer aligned for every typed array.
   *
   * @throws {WeightsError} `truncated_file` if the range is outside the file or the file shrank since it was opened
   */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>
  /** Feeds the whole content to `hash`. */
  hashInto(hash: Hash): Promise<void>
  close(): Promise<void>
}

/**
 * Opens a regular file for reading; symbolic links are followed, because model caches are made of them.
 *
 * @param name what it is called in messages
 * @throws {WeightsError} `file_not_found`, `file_unreadable`, `lfs_pointer`, `web_page`, or `not_a_file` for directories, pipes and devices
 */
export async function openByteFile(path: string, name: string = path): Promise<ByteFile> {
  let handle: FileHandle | undefined
  try {
    const before = await stat(path)
    if (!before.isFile()) throw new WeightsError('not_a_file', `"${name}" is not a regular file`)
    handle = await open(path, 'r')
    const file = createByteFile(name, handle, (await handle.stat()).size)
    assertOwnBytes(await file.read(0, Math.min(file.sizeBytes, SNIFFED_BYTES)), name)
    return file
  } catch (error) {
    await handle?.close()
    throw toFileError(name, error)
  }
}

/** @throws {WeightsError} `lfs_pointer`, `web_page` for what stands in a file's place */
export function assertOwnBytes(start: Uint8Array, path: string): void {
  const foreign = findForeignBytes(start)
  if (foreign?.kind !== 'pointer' && foreign?.kind !== 'page') return
  const code = foreign.kind === 'pointer' ? 'lfs_pointer' : 'web_page'
  throw new WeightsError(code, `"${path}" ${foreign.problem}`, { hint: foreign.hint })
}

/**
 * Reads a small text file.
 *
 * @throws {WeightsError} as `openByteFile`; `file_too_large` beyond `maxBytes`; `invalid_utf8`
 */
export async function readTextFile(path: string, maxBytes: number): Promise<string> {
  const file = await openByteFile(path)
  try {
    if (file.sizeBytes > maxBytes) {
      throw new WeightsError('file_too_large', `"${path}" has ${file.sizeBytes} bytes, expected at most ${maxBytes}`)
    }
    return decodeUtf8(await file.read(0, file.sizeBytes), path)
  } finally {
    await file.close()
  }
}

/**
 * Decodes UTF-8 strictly.
 *
 * @throws {WeightsError} `invalid_utf8` naming `what`
 */
export function decodeUtf8(bytes: Uint8Array, what: string): string {
  if (isUtf16(bytes)) {
    throw new WeightsError('invalid_utf8', `"${what}" begins with the byte order mark of UTF-16, expected UTF-8`, {
      hint: 'save the file as UTF-8',
    })
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new WeightsError('invalid_utf8', `"${what}" is not valid UTF-8`, { cause: error })
  }
}

/** Whether a text begins with the byte order mark of UTF-16, of either order. */
export function isUtf16([first, second]: Uint8Array): boolean {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
}

/** SHA-256 over the given texts and files in order, as lower-case hex; lengths are hashed too, so parts cannot slide. */
export async function digestParts(parts: readonly (string | ByteFile)[]): Promise<string> {
  const hash = createHash('sha256')
  for (const part of parts) {
    if (typeof part === 'string') {
      hash.update(`text ${Buffer.byteLength(part)}\n`).update(part)
    } else {
      hash.update(`file ${part.sizeBytes}\n`)
      await part.hashInto(hash)
    }
  }
  return hash.digest('hex')
}

function createByteFile(path: string, handle: FileHandle, sizeBytes: number): ByteFile {
  async function readInto(target: Uint8Array, offset: number): Promise<void> {
    let done = 0
    while (done < target.length) {
      const length = Math.min(target.length - done, READ_CHUNK_BYTES)
      const { bytesRead } = await handle.read(target, done, length, offset + done)
      if (bytesRead === 0) throw truncated(path, offset + target.length, offset + done)
      done += bytesRead
    }
  }
  return {
    path,
    sizeBytes,
    async read(offset, length) {
      if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(length) || offset < 0 || length < 0) {
        throw new WeightsError('truncated_file', `"${path}" cannot be read at ${offset}, length ${length}`)
      }
      if (offset + length > sizeBytes) throw truncated(path, offset + length, sizeBytes)
      const bytes = new Uint8Array(length)
      await readInto(bytes, offset)
      return bytes
    },
    async hashInto(hash) {
      const buffer = new Uint8Array(Math.min(HASH_CHUNK_BYTES, sizeBytes))
      for (let offset = 0; offset < sizeBytes; offset += buffer.length) {
        const part = buffer.subarray(0, Math.min(buffer.length, sizeBytes - offset))
        await readInto(part, offset)
        hash.update(part)
      }
    },
    close: () => handle.close(),
  }
}

function truncated(path: string, neededBytes: number, sizeBytes: number): WeightsError {
  return new WeightsError('truncated_file', `"${path}" ends at byte ${sizeBytes}, expected at least ${neededBytes}`)
}

function toFileError(path: string, error: unknown): unknown {
  if (error instanceof WeightsError) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    return new WeightsError('file_not_found', `"${path}" does not exist`, { cause: error })
  }
  return new WeightsError('file_unreadable', `"${path}" cannot be read (${String(code)})`, { cause: error })
}
