/**
 * Reads files of a job from the server: files whole, rows as a stream while training goes on. Broken connections are
 * made again. Where the server redirects to its blob store and the bytes from there are wrong, they are read from the
 * server itself. Knows digests and connections, not what the bytes mean.
 *
 * Rows from the blob store are first written to this machine's disk and compared with their digest, so that no damaged
 * row is trained on, and stay there for as long as the job. Bytes from the server were compared there.
 */
import { createHash, type Hash } from 'node:crypto'
import { AppError } from '#base/errors/errors.js'
import { isDirectAnswer } from '#base/util/direct-reads.js'
import { collectContent } from '#base/util/file-content.js'
import type { FetchedFile } from '#training/kinds/start.js'
import type { FencedRequests } from './fenced-requests.js'
import type { KeptRows } from './kept-rows.js'

/** How often bytes are asked for that break off before any new one has come. */
const MAX_TRIES = 3
const HINT = 'look at the network between the worker and its server, then submit the job again'

/**
 * A whole file, with the digest that the server named (empty: none).
 *
 * @throws {AppError} `file_unreadable`; as `send` has it
 */
export async function fetchFile(send: FencedRequests, path: string): Promise<FetchedFile> {
  for (let attempt = 1; ; attempt++) {
    const response = await send('GET', path, { isFromServer: attempt > 1 })
    const sha256 = response.headers.get('x-content-sha256') ?? ''
    try {
      return { bytes: await collectContent(response.body ?? nothing()), sha256 }
    } catch (error) {
      if (attempt === MAX_TRIES) throw unreadable(path, error)
    }
  }
}

/**
 * Bytes of a stored file, at the reader's pace, which may take as long as the job. One that breaks off goes on where it was: the
 * file does not change.
 *
 * @param kept where they are looked for first, and what is filled with those that come from the blob store
 * @throws {AppError} `file_unreadable`; as `send` has it
 */
export async function* readRows(send: FencedRequests, path: string, kept: KeptRows): AsyncGenerator<Uint8Array> {
  const given = { hash: createHash('sha256'), bytes: 0 }
  let failures = 0
  for (let isFromServer = kept.hasNoRoom(path); ; isFromServer = true) {
    const known = isFromServer ? undefined : kept.find(path)
    const response = known === undefined ? await send('GET', path, { isFromServer }) : null
    const sha256 = known === undefined ? (response?.headers.get('x-content-sha256') ?? null) : known.sha256
    const before = given.bytes
    try {
      yield* rest(known?.read() ?? (await bodyOf(response)), given)
    } catch (error) {
      // a disk that cannot be read is no better the next time
      if (known !== undefined) await kept.forget(path)
      failures = given.bytes > before ? 1 : failures + 1
      if (failures === MAX_TRIES) throw unreadable(path, error)
      continue
    }
    if (sha256 === null || given.hash.digest('hex') === sha256) return
    throw new AppError('unavailable', 'file_unreadable', `GET ${path} does not give the bytes of its digest`, {
      hint: HINT,
    })
  }

  async function bodyOf(response: Response | null): Promise<AsyncIterable<Uint8Array>> {
    const body = response?.body ?? null
    if (response === null || body === null) return nothing()
    if (!isDirectAnswer(response)) return body
    return (await kept.keep(path, response.headers.get('x-content-sha256'), body)).read()
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** What has not been given yet. */
async function* rest(
  body: AsyncIterable<Uint8Array>,
  given: { readonly hash: Hash; bytes: number },
): AsyncGenerator<Uint8Array> {
  let skipBytes = given.bytes
  for await (const chunk of body) {
    const part = chunk.subarray(Math.min(skipBytes, chunk.length))
    skipBytes -= chunk.length - part.length
    if (part.length === 0) continue
    given.hash.update(part)
    given.bytes += part.length
    yield part
  }
}

function unreadable(path: string, cause: unknown): AppError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? `, ${cause.cause.message}` : ''
  const reason = `${cause instanceof Error ? cause.message : cause}${inner}`
  return new AppError('unavailable', 'file_unreadable', `GET ${path} broke off ${MAX_TRIES} times: ${reason}`, {
    hint: HINT,
    cause,
  })
}
