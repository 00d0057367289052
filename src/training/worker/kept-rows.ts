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
  /**
   * Writes bytes to disk and keeps them; resolves when all of them are there.
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

export function createKeptRows(): KeptRows {
  const kept = new Map<string, KeptFile & { readonly handle: FileHandle }>()

  async function forget(path: string): Promise<void> {
    const file = kept.get(path)
    kept.delete(path)
    await file?.handle.close()
  }

  return {
    find: (path) => kept.get(path),
    keep: async (path, sha256, body) => {
      const handle = await openNameless()
      try {
        for await (const chunk of body) await handle.appendFile(chunk)
      } catch (error) {
        await handle.close()
        throw error
      }
      await forget(path)
      const file = { sha256, handle, read: () => readParts(handle) }
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
async function* readParts(handle: FileHandle): AsyncGenerator<Uint8Array> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafeSlow(PART_BYTES), 0, PART_BYTES, position)
    if (bytesRead === 0) return
    position += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

async function openNameless(): Promise<FileHandle> {
  const path = join(tmpdir(), `trainyard-rows-${systemIds.uuid()}`)
  const handle = await open(path, 'wx+', 0o600)
  await unlink(path)
  return handle
}
