/**
 * One file of a hub, to disk: goes on where a partial file ends, and is renamed to its name only when its digest is right.
 *
 * A commit's files never change, so a range of one can follow bytes of an earlier attempt. A connection that breaks is opened again as
 * long as every attempt brings bytes.
 */
import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '#base/errors/errors.js'
import { moveFile } from '#base/util/move-file.js'
import type { HubConnection } from './hub-connection.js'
import { type HubFile, requireSuccess } from './hub-files.js'

export interface DownloadOptions {
  readonly connection: HubConnection
  readonly repository: string
  readonly commit: string
  readonly directory: string
  readonly signal: AbortSignal
  /** Called with the bytes of this file that are on disk. */
  readonly onProgress: (bytes: number) => void
  /** Wait before a broken connection is opened again. */
  readonly retryMs: number
}

/** Attempts in a row that bring nothing. */
const MAX_FRUITLESS = 5
const SILENCE_MS = 60_000

/**
 * Downloads a file unless it is there.
 *
 * @throws {AppError} `hub_unreachable`, `hub_failed`, `hub_digest_mismatch` (the partial file is then deleted); `ENOSPC` and its kind as they come
 */
export async function downloadHubFile(file: HubFile, options: DownloadOptions): Promise<void> {
  const target = join(options.directory, file.name)
  if ((await sizeOf(target)) === file.sizeBytes) return options.onProgress(file.sizeBytes)
  const partial = `${target}.partial`
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  let fruitless = 0
  for (;;) {
    const before = await sizeOf(partial)
    if (before === file.sizeBytes) break
    if (before > file.sizeBytes) await rm(partial)
    const from = before > file.sizeBytes ? 0 : Math.max(0, before)
    try {
      await append(file, partial, from, options)
    } catch (error) {
      options.signal.throwIfAborted()
      fruitless = (await sizeOf(partial)) > before ? 0 : fruitless + 1
      if (!isTransient(error) || fruitless >= MAX_FRUITLESS) throw error
      await sleep(options.retryMs * 2 ** fruitless, undefined, { signal: options.signal })
    }
  }
  if (!(await isIntact(partial, file))) {
    await rm(partial, { force: true })
    throw new AppError(
      'unavailable',
      'hub_digest_mismatch',
      `the bytes of ${file.name} are not those the hub describes`,
      {
        hint: 'add it again: this file is fetched anew',
      },
    )
  }
  await moveFile(partial, target)
  options.onProgress(file.sizeBytes)
}

/** Appends what is missing. @throws {AppError} `hub_failed` where the answer ends before the file does */
async function append(file: HubFile, partial: string, from: number, options: DownloadOptions): Promise<void> {
  const name = file.name.split('/').map(encodeURIComponent).join('/')
  const path = `/${options.repository}/resolve/${options.commit}/${name}`
  const headers = from === 0 ? {} : { range: `bytes=${from}-` }
  const answer = await options.connection.open(path, { signal: options.signal, headers })
  await requireSuccess(answer, `${file.name} of ${options.repository}`)
  const start = answer.statusCode === 206 ? rangeStart(answer) : 0
  if (start !== 0 && start !== from) {
    answer.destroy()
    throw new AppError('unavailable', 'hub_failed', `the hub sent another range of ${file.name} than asked for`)
  }
  // a server that knows no ranges sends the whole file
  const handle = await open(partial, start === 0 ? 'w' : 'a', 0o600)
  try {
    let length = start
    answer.setTimeout(SILENCE_MS, () => answer.destroy(new Error(`no bytes for ${SILENCE_MS / 1000} s`)))
    for await (const bytes of piecesOf(answer)) {
      length += bytes.length
      if (length > file.sizeBytes) {
        throw new AppError('unavailable', 'hub_digest_mismatch', `${file.name} is longer than the hub describes`)
      }
      // all of it: a single write may take less, where the disk is nearly full
      await handle.writeFile(bytes)
      options.onProgress(length)
    }
    // an answer that ends in good order where the file does not: asked again it may never bring more
    if (length < file.sizeBytes) {
      const problem = `ends after ${length} bytes, the hub describes ${file.sizeBytes}`
      throw new AppError('unavailable', 'hub_failed', `${file.name} ${problem}`)
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** The pieces of an answer, also what had come unread when its connection broke: an iterator alone forgets that. */
async function* piecesOf(answer: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    for await (const piece of answer) yield piece as Buffer
  } catch (error) {
    for (let piece = answer.read(); piece !== null; piece = answer.read()) yield piece as Buffer
    throw error
  }
}

function rangeStart(answer: IncomingMessage): number | null {
  const start = /^bytes (\d+)-/.exec(answer.headers['content-range'] ?? '')?.[1]
  return start === undefined ? null : Number(start)
}

/** A broken connection or a hub that is busy; a full disk or a refusal is not. */
function isTransient(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'hub_unreachable' || error.code === 'hub_failed'
  const code = error instanceof Error && 'code' in error ? error.code : null
  const isNetwork = typeof code === 'string' && /^(ECONN|ETIMEDOUT|EPIPE|ERR_STREAM_PREMATURE_CLOSE)/.test(code)
  return isNetwork || (error instanceof Error && /^(aborted|no bytes)/.test(error.message))
}

async function isIntact(path: string, file: HubFile): Promise<boolean> {
  const sha256 = createHash('sha256')
  const gitSha1 = createHash('sha1').update(`blob ${file.sizeBytes}\0`)
  const hash: Hash = file.sha256 === null ? gitSha1 : sha256
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(piece as Buffer)
  return hash.digest('hex') === (file.sha256 ?? file.gitSha1)
}

/** -1 for a file that is not there. */
async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => null))?.size ?? -1
}
