/**
 * Bodies as they arrive: in memory while small, in a file beyond that. What all unfinished ones may hold together is bounded, and a slow one
 * holds no more than its first part in memory. Keys share: parts that arrive take turns by key.
 */
import { type FileHandle, open, rm } from 'node:fs/promises'
import { releaseBytes } from '#base/util/release-bytes.js'
import { createDiskShares } from './disk-shares.js'
import type { BodySource } from './thread-protocol.js'

/**
 * Limits how many parts of request bodies are read in one round of the event loop, and lets keys take turns.
 *
 * A burst of large bodies has data ready on every connection at once. Without a limit one round over all of them takes
 * half a second, in which no stream is written. TCP holds back a connection that waits for its turn. A key with two
 * hundred connections gets as many turns as a key with one.
 */
interface ReadTurns {
  /** Resolves when one more part may be read; at once in effect while few bodies arrive. @param key whose body it is */
  next(key: string): Promise<void>
}

/** @param perRound parts read between two rounds of the event loop */
export function createReadTurns(perRound: number): ReadTurns {
  /** Keys in the order of their turns; each has at least one that waits. */
  const waiting = new Map<string, (() => void)[]>()
  let isScheduled = false

  function schedule(): void {
    isScheduled = waiting.size > 0
    if (isScheduled) setImmediate(round)
  }

  function round(): void {
    for (let left = perRound; left > 0; left--) {
      const [entry] = waiting
      if (entry === undefined) break
      const [key, queue] = entry
      const resolve = queue.shift()
      waiting.delete(key)
      // behind the other keys
      if (queue.length > 0) waiting.set(key, queue)
      resolve?.()
    }
    schedule()
  }

  return {
    next: (key) =>
      new Promise((resolve) => {
        const queue = waiting.get(key)
        if (queue === undefined) waiting.set(key, [resolve])
        else queue.push(resolve)
        if (!isScheduled) schedule()
      }),
  }
}

/** A body that is there to its end. */
export interface ReceivedBody {
  /** Whose turn it is when this is read. */
  readonly key: string
  readonly sizeBytes: number
  /** Hands the bytes over; those in memory are gone afterwards. */
  take(): BodySource
  /** Gives up what is held; harmless twice. */
  dispose(): Promise<void>
}

/** One body in memory, and all of them together; what is more goes to a file. */
const MEMORY_BYTES = 1024 ** 2
const ALL_MEMORY_BYTES = 8 * 1024 ** 2
/** Bytes of one write, where memory allows. */
const WRITE_BYTES = 256 * 1024
/** What is read of a body without waiting for a turn; conversations are rarely longer. */
const FIRST_BYTES = 128 * 1024
/** A part is up to 64 kB and costs up to a millisecond. */
const PARTS_PER_ROUND = 8
/** Small pieces are joined: each costs some hundred bytes of its own. */
const MAX_PIECES = 64
export interface BodyReceiverOptions {
  /** Bytes that all unfinished bodies may hold together. */
  readonly unfinishedBytes: number
  /** An unused path for a file. */
  readonly temporaryPath: () => string
}

export interface BodyReceiver {
  /**
   * Takes all bytes, and empties the parts they come in.
   *
   * @param key whose body it is: keys share
   * @throws {AppError} `too_many_bodies`, and whatever `source` throws
   */
  receive(source: AsyncIterable<Uint8Array>, key: string): Promise<ReceivedBody>
}

export function createBodyReceiver({ unfinishedBytes, temporaryPath }: BodyReceiverOptions): BodyReceiver {
  const arriving = createReadTurns(PARTS_PER_ROUND)
  const disk = createDiskShares(unfinishedBytes)
  /** Of all bodies. */
  let memoryBytes = 0

  async function receive(source: AsyncIterable<Uint8Array>, key: string): Promise<ReceivedBody> {
    const share = disk.open(key)
    let pieces: Uint8Array[] = []
    let inMemory = 0
    let onDisk = 0
    let file: { readonly handle: FileHandle; readonly path: string } | null = null

    function release(): void {
      memoryBytes -= inMemory
      inMemory = 0
      onDisk = 0
      share.release()
    }

    /** Writes to the file what is in memory, and what is not. */
    async function spill(parts: readonly Uint8Array[]): Promise<void> {
      const length = parts.reduce((sum, part) => sum + part.length, 0)
      share.take(length)
      onDisk += length
      if (file === null) {
        const path = temporaryPath()
        file = { handle: await open(path, 'wx', 0o600), path }
      }
      await writeAll(file.handle, parts)
      parts.forEach(releaseBytes)
      pieces = []
      memoryBytes -= inMemory
      inMemory = 0
    }

    async function discard(): Promise<void> {
      pieces = []
      const spooled = file
      file = null
      release()
      if (spooled === null) return
      await spooled.handle.close().catch(() => undefined)
      await rm(spooled.path, { force: true })
    }

    try {
      for await (const chunk of source) {
        // on disk it goes in pieces of some size: each write costs a turn of the event loop and of a thread
        const most = file === null ? MEMORY_BYTES : WRITE_BYTES
        if (inMemory + chunk.length <= most && memoryBytes + chunk.length <= ALL_MEMORY_BYTES) {
          memoryBytes += chunk.length
          inMemory += chunk.length
          pieces.push(chunk)
          if (pieces.length > MAX_PIECES) pieces = [Buffer.concat(pieces)]
        } else await spill([...pieces, chunk])
        if (inMemory + onDisk > FIRST_BYTES) await arriving.next(key)
      }
      const isOnDisk = onDisk > 0
      if (isOnDisk && pieces.length > 0) await spill(pieces)
      await (file as { readonly handle: FileHandle } | null)?.handle.close()
    } catch (error) {
      await discard()
      throw error
    }
    const path = (file as { readonly path: string } | null)?.path ?? null
    return {
      key,
      sizeBytes: inMemory + onDisk,
      dispose: discard,
      take: () => {
        if (path !== null) return { path }
        const bytes = joined(pieces, inMemory)
        pieces = []
        return { bytes }
      },
    }
  }

  return { receive }
}

/** Writes the parts one behind the other, without a copy of them in one piece. */
async function writeAll(handle: FileHandle, parts: readonly Uint8Array[]): Promise<void> {
  let left = parts.filter(({ length }) => length > 0)
  while (left.length > 0) {
    let { bytesWritten } = await handle.writev(left)
    // a write may take less than all of it
    left = left.flatMap((part) => {
      const taken = Math.min(bytesWritten, part.length)
      bytesWritten -= taken
      return taken === part.length ? [] : [part.subarray(taken)]
    })
  }
}

/** A buffer of its own, which is handed to the thread and not copied; the pieces are released. */
function joined(pieces: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
    releaseBytes(piece)
  }
  return bytes
}
