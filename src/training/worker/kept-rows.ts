/**
 * Rows of a job that came from the blob store, on this machine's disk for as long as the job: a pass over them each epoch, and each block of
 * rows that are shuffled, reads them again. One file for each path of the server, so two at most.
 *
 * The files have no name from the moment they are open: the system takes them away with this process, however it ends, and nothing is left
 * to be swept. Knows no digests: whoever gives bytes has compared them.
 */
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemIds } from '#base/util/ids.js'

/** One stored file. */
export interface KeptFile {
  /** What the server calls its bytes. */
  readonly sha256: string | null
  /** From the first byte on; several may read at once. */
  read(): AsyncIterable<Uint8Array>
}

export interface KeptRows {
  find(path: string): KeptFile | undefined
  /** No room was found for it: it is not to be tried again. */
  hasNoRoom(path: string): boolean
  /**
   * Writes bytes to disk and keeps them; resolves when all of them are there. Where another reader has kept them meanwhile, its are used.
   *
   * @throws whatever `body` throws, and errors of the disk: nothing is kept then
   */
  keep(path: string, sha256: string | null, body: AsyncIterable<Uint8Array>): Promise<KeptFile>
  /** Gives the room back: of one that cannot be read any more. */
  forget(path: string): Promise<void>
  /** Of all of them. */
  close(): Promise<void>
}

const PART_BYTES = 256 * 1024
/** Of a disk, a quota, or a limit of files. */
const NO_ROOM: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** @param onPart called for each part that is written or read: a pass over gigabytes is progress, though nothing is computed */
export function createKeptRows(onPart: () => void): KeptRows {
  const kept = new Map<string, KeptFile & { readonly handle: FileHandle }>()
  const withoutRoom = new Set<string>()

  async function forget(path: string): Promise<void> {
    const file = kept.get(path)
    kept.delete(path)
    await file?.handle.close()
  }

  return {
    find: (path) => kept.get(path),
    hasNoRoom: (path) => withoutRoom.has(path),
    keep: async (path, sha256, body) => {
      const handle = await openNameless()
      try {
        for await (const chunk of body) {
          await handle.appendFile(chunk)
          onPart()
        }
      } catch (error) {
        await handle.close()
        if (NO_ROOM.has((error as NodeJS.ErrnoException).code ?? '')) withoutRoom.add(path)
        throw error
      }
      const earlier = kept.get(path)
      if (earlier !== undefined) {
        await handle.close()
        return earlier
      }
      const file = { sha256, handle, read: () => readParts(handle, onPart) }
      kept.set(path, file)
      return file
    },
    forget,
    close: async () => {
      for (const path of [...kept.keys()]) await forget(path)
    },
  }
}

/** A stream of Node's would close the file when its reader leaves early. */
async function* readParts(handle: FileHandle, onPart: () => void): AsyncGenerator<Uint8Array> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafeSlow(PART_BYTES), 0, PART_BYTES, position)
    if (bytesRead === 0) return
    position += bytesRead
    onPart()
    yield buffer.subarray(0, bytesRead)
  }
}

async function openNameless(): Promise<FileHandle> {
  const path = join(tmpdir(), `trainyard-rows-${systemIds.uuid()}`)
  const handle = await open(path, 'wx+', 0o600)
  await unlink(path)
  return handle
}
