/**
 * Bodies on their way in: collected in memory while small, in a file beyond that, then read on the event loop or in a
 * thread. Knows nothing of HTTP.
 *
 * What all unfinished bodies may hold together is bounded, and a slow body holds no more than its first part in memory, so
 * many slow bodies cost disk and nothing else. Keys share: several bodies of one key hold at most half of that room, and parts
 * that arrive and bodies that are read take turns by key.
 */

import { readFile, rm, stat } from 'node:fs/promises'
import type { z } from 'zod'
import { AppError } from '#base/errors/errors.js'
import type { EntryPoint } from '#base/processes/entry.js'
import { createTurns } from '#base/util/turns.js'
import type { JsonBody } from '#contract/endpoints/endpoint.js'
import type { BinaryBody, BodyFinder, BodyLimits, BodyName, BodyOf, GroupsBodyName, StoredBody } from './bodies.js'
import { createBodyThread } from './body-thread.js'
import type { ParsedBody } from './parse-body.js'
import { createBodyReceiver, type ReceivedBody } from './receive-body.js'
import { type BodySource, type GroupsRead, type GroupsTask, MAX_OPEN_GROUPS } from './thread-protocol.js'

/** A body's groups on disk. */
export interface ReceivedGroups<N extends GroupsBodyName> extends GroupsRead {
  readonly request: BodyOf<N>
  /** Absolute path of the JSON Lines; whoever receives them moves or removes it. */
  readonly path: string
}

export interface BodyStore {
  readonly limits: BodyLimits
  /**
   * Takes all bytes, and empties the parts they come in.
   *
   * @param key whose body it is: keys share
   * @throws {AppError} `too_many_bodies`, and whatever `source` throws
   */
  receive(source: AsyncIterable<Uint8Array>, key: string): Promise<ReceivedBody>
  /** @throws {AppError} as `parseBody` */
  parse<N extends BodyName>(name: N, body: ReceivedBody): Promise<ParsedBody<BodyOf<N>>>
  /** What is read of a body of this kind, and all of its bytes. */
  readBinary<T>(kind: BinaryBody<T>, body: ReceivedBody): Promise<{ readonly read: T; readonly bytes: Uint8Array }>
  /** The bytes of a body, which nothing but its first 64 kB is read of on the event loop. */
  bytesOf(body: ReceivedBody): Promise<Uint8Array>
  /** A body that was stored before it is read. @throws {AppError} as `parseBody`, and `request_too_large` */
  parseFile<S extends z.ZodType>(kind: StoredBody<S>, path: string, key: string): Promise<ParsedBody<z.output<S>>>
  /** How many bytes a body may have, by its endpoint. */
  maxBytesOf(name: string): number
  /** @throws {AppError} as `parseBody`, and {DataError} with the path of the element that is wrong */
  readGroups<N extends GroupsBodyName>(name: N, body: ReceivedBody): Promise<ReceivedGroups<N>>
  close(): Promise<void>
}

export interface BodyStoreOptions {
  readonly limits: BodyLimits
  readonly bodyOf: BodyFinder
  /** Entry of the thread that reads large bodies, below `src/`: it knows the same bodies (`read-bodies.ts`). */
  readonly thread: EntryPoint
  /** Files of plugins that it loads. */
  readonly pluginFiles: readonly string[]
  /** An unused path for a file; the folder is emptied at the next start. */
  readonly temporaryPath: () => string
}

/** Read at once on the event loop up to this size: checking it takes a few milliseconds, whatever is in it. */
const INLINE_BYTES = 16 * 1024
/** Behind the threads of running answers: what it loads to begin with is more work than most bodies. */
const CHAT_THREAD = { niceness: 5, maxHeapMb: 512 }
/**
 * No less urgent than a chat, on purpose: beside an engine that takes all cores, a thread behind it read a burst of large bodies in
 * twice the time, and chats have two threads against this one.
 */
const BULK_THREAD = { niceness: 0, maxHeapMb: 2048 }

/**
 * Bodies of one key that a thread has at once, and room beside them for other keys. What waits holds its bytes already, which are
 * bounded, so its number is not.
 */
const UNBOUNDED = { mostWaiting: Number.POSITIVE_INFINITY, mostOfOneKey: Number.POSITIVE_INFINITY }
const CHAT_TURNS = { what: 'chat bodies', atOnce: 1, spare: 1, ...UNBOUNDED }
const BULK_TURNS = { what: 'bodies of groups', atOnce: MAX_OPEN_GROUPS - 1, spare: 1, ...UNBOUNDED }
/** A body that is there is read, also when its client has gone: nothing would be saved. */
const NEVER = new AbortController().signal

export function createBodyStore(options: BodyStoreOptions): BodyStore {
  const { limits, temporaryPath, bodyOf } = options
  const chatThread = createBodyThread(options.thread, { ...CHAT_THREAD, pluginFiles: options.pluginFiles })
  const bulkThread = createBodyThread(options.thread, { ...BULK_THREAD, pluginFiles: options.pluginFiles })
  const receiver = createBodyReceiver({ unfinishedBytes: limits.unfinishedBytes, temporaryPath })
  const chatTurns = createTurns(CHAT_TURNS)
  const bulkTurns = createTurns(BULK_TURNS)

  return {
    limits,
    receive: receiver.receive,
    parse: async <N extends BodyName>(name: N, body: ReceivedBody) => {
      const source = body.take()
      const value = isSmall(body, source)
        ? await parseAtOnce(bodyOf(name), source.bytes)
        : await chatTurns.take(body.key, NEVER, () => chatThread.run({ type: 'parse', name, source }))
      return value as ParsedBody<BodyOf<N>>
    },
    readBinary: async <T>(kind: BinaryBody<T>, body: ReceivedBody) => {
      const source = body.take()
      const bytes = 'bytes' in source ? source.bytes : null
      if (bytes !== null && bytes.length <= INLINE_BYTES) return { read: (await kind.load())(bytes), bytes }
      const task = { type: 'binary', name: kind.name, source: copyOf(source) } as const
      const read = (await chatTurns.take(body.key, NEVER, () => chatThread.run(task))) as T
      return { read, bytes: bytes ?? (await bytesOf(source)) }
    },
    bytesOf: async (body) => bytesOf(body.take()),
    maxBytesOf: (name) => maxBytesOf(bodyOf(name), limits),
    parseFile: async <S extends z.ZodType>(kind: StoredBody<S>, path: string, key: string) => {
      const { size } = await stat(path)
      const { name } = kind
      const maxBytes = maxBytesOf(kind, limits)
      if (size > maxBytes) {
        throw new AppError('too_large', 'request_too_large', `the body is larger than ${maxBytes} bytes`)
      }
      const value =
        size <= INLINE_BYTES
          ? await parseAtOnce(kind, await readFile(path))
          : await chatTurns.take(key, NEVER, () => chatThread.run({ type: 'parse', name, source: { path } }))
      return value as ParsedBody<z.output<S>>
    },
    readGroups: async <N extends GroupsBodyName>(name: N, body: ReceivedBody) => {
      const path = temporaryPath()
      const source = body.take()
      const task = { type: 'groups', name, source, targetPath: path, maxGroupBytes: limits.groupBytes } as const
      try {
        const read = (
          isSmall(body, source)
            ? await readAtOnce(task, bodyOf(name))
            : await bulkTurns.take(body.key, NEVER, () => bulkThread.run(task))
        ) as GroupsRead
        return { ...read, request: read.request as BodyOf<N>, path }
      } catch (error) {
        await rm(path, { force: true })
        throw error
      }
    },
    close: async () => {
      await Promise.all([chatThread.close(), bulkThread.close()])
    },
  }
}

function isSmall(body: ReceivedBody, source: BodySource): source is { readonly bytes: Uint8Array } {
  return body.sizeBytes <= INLINE_BYTES && 'bytes' in source
}

/** What is handed to a thread is gone here. */
function copyOf(source: BodySource): BodySource {
  return 'bytes' in source ? { bytes: source.bytes.slice() } : source
}

async function bytesOf(source: BodySource): Promise<Uint8Array> {
  return 'bytes' in source ? source.bytes : await readFile(source.path)
}

/** How many bytes a body of this kind may have. */
export function maxBytesOf({ size }: Pick<JsonBody, 'size'>, limits: BodyLimits): number {
  return limits[size]
}

/** What reads a body is loaded with the first one. */
async function parseAtOnce(kind: JsonBody, bytes: Uint8Array): Promise<ParsedBody> {
  return (await import('./parse-body.js')).parseBody(kind, [bytes])
}

async function readAtOnce(task: GroupsTask, kind: JsonBody): Promise<GroupsRead> {
  const { createGroupReading } = await import('./group-reading.js')
  const reading = createGroupReading(task, kind)
  try {
    for (;;) {
      const read = reading.step()
      if (read !== null) return read
    }
  } catch (error) {
    reading.discard()
    throw error
  }
}
