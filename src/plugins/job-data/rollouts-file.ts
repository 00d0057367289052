/**
 * Reads what a worker noted of a job's rollouts (`contract/processes/rollouts.ts`) and the rows they came from, by ranges of local files.
 *
 * A worker elsewhere wrote them, so nothing of them is believed: the head is checked against its schema, and every range against the file.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { InvalidRequestError, StorageError } from '#base/errors/errors.js'
import {
  type RolloutColumn,
  type RolloutSequence,
  type RolloutsHead,
  rolloutsHeadSchema,
  sequenceBytes,
} from '#contract/processes/rollouts.js'
import type { RolloutGroup } from '#contract/wire/training/rollouts.js'
import type { BlobStore } from '#service/storage/blobs.js'
import { sequencesByGroup, toGroupRows } from './rollout-rows.js'

/** Heads, and places of lines, that stay in memory. */
const KEPT = 4
/** Longest head: groups and sequences of a job, about a hundred bytes each. */
const MAX_HEAD_BYTES = 64 * 1024 ** 2
/** Longest group that is read as a whole; the rows themselves are sent at any length. */
const MAX_GROUP_BYTES = 64 * 1024 ** 2
const LINE_FEED = 10
const CHUNK_BYTES = 1024 ** 2

/** Tokens [from, to) of a sequence; columns hold a value for each of them, NaN where it does not train. */
export interface NotedTokens {
  readonly ids: Int32Array
  readonly isTrained: Uint8Array
  readonly columns: ReadonlyMap<RolloutColumn, Float32Array>
}

/** What a token is called. */
export interface Piece {
  readonly bytes: Uint8Array
  readonly isControl: boolean
}

/** What is remembered of a file: to make it of a job of 100,000 trajectories takes a tenth of a second. */
interface Known {
  readonly head: RolloutsHead
  /** The byte behind the head. */
  readonly start: number
  readonly rows: readonly RolloutGroup[]
  readonly ofGroup: ReadonlyMap<number, readonly RolloutSequence[]>
}

export interface RolloutsFile {
  readonly head: RolloutsHead
  /** The rows of all groups, in the order they were sent. */
  readonly rows: readonly RolloutGroup[]
  /** Those of a trajectory whose tokens were noted. */
  sequencesOf(group: number, trajectory: number): readonly RolloutSequence[]
  /** All ids of a sequence, from its first token. */
  readIds(sequence: RolloutSequence): Promise<Int32Array>
  readTokens(sequence: RolloutSequence, from: number, to: number): Promise<NotedTokens>
  readPieces(): Promise<ReadonlyMap<number, Piece>>
}

export interface RolloutFiles {
  /** @throws {StorageError} `rollouts_damaged`, `blob_missing` */
  open(sha256: string): Promise<RolloutsFile>
  /**
   * One line of a job's rows.
   *
   * @returns null beyond the last; @throws {InvalidRequestError} `group_too_large`
   */
  readRow(sha256: string, index: number): Promise<string | null>
}

export function createRolloutFiles(blobs: Pick<BlobStore, 'localFile'>): RolloutFiles {
  const heads = new Map<string, Promise<Known>>()
  const lines = new Map<string, Promise<Float64Array>>()
  return {
    open: async (sha256) => {
      const path = await blobs.localFile(sha256)
      return rolloutsFile(path, await remembered(heads, sha256, () => readHead(path)))
    },
    readRow: async (sha256, index) => {
      const path = await blobs.localFile(sha256)
      const ends = await remembered(lines, sha256, () => findLines(path))
      const end = ends[index]
      if (end === undefined) return null
      const from = index === 0 ? 0 : (ends[index - 1] as number)
      if (end - from > MAX_GROUP_BYTES) {
        const size = `${Math.ceil((end - from) / 1024 ** 2)} MB`
        throw new InvalidRequestError('group_too_large', `group ${index} has ${size}, more than is shown at once`, {
          hint: 'trainyard jobs data gives the rows themselves',
        })
      }
      return withFile(path, async (file) => Buffer.from(await readRange(file, from, end)).toString('utf8'))
    },
  }
}

/** The newest few of what was made stay. */
function remembered<T>(kept: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const before = kept.get(key)
  kept.delete(key)
  const made = before ?? make()
  kept.set(key, made)
  made.catch(() => kept.delete(key))
  const [oldest] = kept.keys()
  if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest)
  return made
}

function rolloutsFile(path: string, { head, start, rows, ofGroup }: Known): RolloutsFile {
  return {
    head,
    rows,
    sequencesOf: (group, trajectory) => (ofGroup.get(group) ?? []).filter((each) => each.trajectory === trajectory),
    readIds: (sequence) =>
      withFile(path, async (file) => {
        const at = start + sequence.offset
        return new Int32Array(await readRange(file, at, at + 4 * sequence.length))
      }),
    readTokens: (sequence, from, to) =>
      withFile(path, async (file) => {
        const { length, trained } = sequence
        const at = start + sequence.offset
        const bytes = await readRange(file, at, at + sequenceBytes(length, trained, head.columns.length))
        const ids = new Int32Array(bytes, 0, length)
        const mask = new Uint8Array(bytes, 4 * (length + trained * head.columns.length), length)
        const before = mask.subarray(0, from).reduce((sum, bit) => sum + (bit === 1 ? 1 : 0), 0)
        const columns = new Map<RolloutColumn, Float32Array>()
        head.columns.forEach((name, c) => {
          const values = new Float32Array(bytes, 4 * (length + c * trained), trained)
          const spread = new Float32Array(to - from).fill(Number.NaN)
          let n = before
          for (let t = from; t < to; t++) {
            if (mask[t] === 1) spread[t - from] = values[n++] ?? Number.NaN
          }
          columns.set(name, spread)
        })
        return { ids: ids.slice(from, to), isTrained: mask.slice(from, to), columns }
      }),
    readPieces: () =>
      withFile(path, async (file) => {
        const { offset, count, bytes: textBytes } = head.pieces
        const at = start + offset
        const bytes = await readRange(file, at, at + 9 * count + textBytes)
        const ids = new Int32Array(bytes, 0, count)
        const ends = new Int32Array(bytes, 4 * count, count)
        const flags = new Uint8Array(bytes, 8 * count, count)
        const text = new Uint8Array(bytes, 9 * count, textBytes)
        const pieces = new Map<number, Piece>()
        ids.forEach((id, n) => {
          const piece = text.subarray(n === 0 ? 0 : ends[n - 1], ends[n])
          pieces.set(id, { bytes: piece, isControl: flags[n] === 1 })
        })
        return pieces
      }),
  }
}

async function readHead(path: string): Promise<Known> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of createReadStream(path, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>) {
    const end = part.indexOf(LINE_FEED)
    parts.push(end === -1 ? part : part.subarray(0, end))
    size += end === -1 ? part.length : end
    if (size > MAX_HEAD_BYTES) break
    if (end === -1) continue
    const found = rolloutsHeadSchema.safeParse(parseJson(Buffer.concat(parts).toString('utf8')))
    if (!found.success) break
    const ofGroup = sequencesByGroup(found.data)
    return { head: found.data, start: size + 1, rows: toGroupRows(found.data, ofGroup), ofGroup }
  }
  throw damaged()
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Where each line ends, its line feed included. */
async function findLines(path: string): Promise<Float64Array> {
  const ends: number[] = []
  let at = 0
  for await (const part of createReadStream(path, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>) {
    for (let end = part.indexOf(LINE_FEED); end !== -1; end = part.indexOf(LINE_FEED, end + 1)) ends.push(at + end + 1)
    at += part.length
  }
  if (at > (ends.at(-1) ?? 0)) ends.push(at)
  return Float64Array.from(ends)
}

async function withFile<T>(path: string, action: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path)
  try {
    return await action(file)
  } finally {
    await file.close()
  }
}

/** @throws {StorageError} `rollouts_damaged` when the file is shorter */
async function readRange(file: FileHandle, from: number, to: number): Promise<ArrayBuffer> {
  const { size } = await file.stat()
  if (!(from <= to && to <= size)) throw damaged()
  const bytes = new Uint8Array(to - from)
  let read = 0
  while (read < bytes.length) {
    const { bytesRead } = await file.read(bytes, read, bytes.length - read, from + read)
    if (bytesRead === 0) throw damaged()
    read += bytesRead
  }
  return bytes.buffer
}

function damaged(): StorageError {
  return new StorageError('rollouts_damaged', 'what was noted of the job cannot be read: it is not of this format', {
    hint: 'trainyard jobs data gives the rows it trained on',
  })
}
