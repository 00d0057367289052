/**
 * The operations that a blob store needs from S3: put an object (also only if it is new), read from any byte on, list,
 * delete. Requests are repeated where that may help; large files go in parts. Knows object keys and files, not blobs.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { brokenOff, type FileRange, readText, S3Failure, type S3Request, type S3Sender, textOf } from './s3-request.js'

/** What a listing or a HEAD says. */
export interface ObjectFacts {
  readonly sizeBytes: number
  readonly modifiedAtMs: number
  /** The store's own clock when it said so. */
  readonly storeNowMs: number
}

export interface S3Objects {
  /**
   * Writes a file as an object.
   *
   * @param options.isNew only if there is none. Default: over it
   * @returns false when there is one already
   */
  putFile(key: string, file: StoredFile, options?: { readonly isNew?: boolean }): Promise<boolean>
  putBytes(key: string, bytes: Buffer, options?: { readonly isNew?: boolean }): Promise<boolean>
  head(key: string): Promise<ObjectFacts | null>
  /** All bytes; goes on where a broken connection ended. @throws {S3Failure} status 404 */
  read(key: string, range?: { readonly start: number; readonly end: number }): AsyncGenerator<Uint8Array>
  list(prefix: string): AsyncGenerator<string>
  delete(key: string): Promise<void>
}

export interface StoredFile {
  readonly path: string
  readonly sizeBytes: number
  /** Hex. */
  readonly sha256: string
}

export interface S3Tuning {
  /** Files above it go in parts of this size, bytes; a store takes no less than 5 MiB. */
  readonly partBytes: number
  /** Wait before the second try, milliseconds; doubles, with chance in it. */
  readonly retryMs: number
}

export const DEFAULT_S3_TUNING: S3Tuning & { readonly silenceMs: number; readonly directBytes: number } = {
  partBytes: 64 * 1024 ** 2,
  retryMs: 200,
  silenceMs: 30_000,
  directBytes: 1024 ** 2,
}
const TRIES = 5
const PARTS_AT_ONCE = 4

export function createS3Objects(sender: S3Sender, tuning: S3Tuning, random: () => number): S3Objects {
  return new BucketObjects(sender, tuning, random)
}

class BucketObjects implements S3Objects {
  readonly #sender: S3Sender
  readonly #tuning: S3Tuning
  readonly #random: () => number

  constructor(sender: S3Sender, tuning: S3Tuning, random: () => number) {
    this.#sender = sender
    this.#tuning = tuning
    this.#random = random
  }

  async putFile(key: string, file: StoredFile, { isNew = false }: { readonly isNew?: boolean } = {}): Promise<boolean> {
    if (file.sizeBytes > this.#tuning.partBytes) return this.#putParts(key, file, isNew)
    const headers = { ...checksum(file.sha256), ...condition(isNew) }
    const body: FileRange = { path: file.path, start: 0, sizeBytes: file.sizeBytes }
    return this.#unlessThere(() => this.#ask({ method: 'PUT', key, headers, bodySha256: file.sha256, body }))
  }

  putBytes(key: string, bytes: Buffer, { isNew = false }: { readonly isNew?: boolean } = {}): Promise<boolean> {
    const bodySha256 = createHash('sha256').update(bytes).digest('hex')
    const headers = { ...checksum(bodySha256), ...condition(isNew) }
    return this.#unlessThere(() => this.#ask({ method: 'PUT', key, headers, bodySha256, body: bytes }))
  }

  async head(key: string): Promise<ObjectFacts | null> {
    try {
      const { headers } = await this.#ask({ method: 'HEAD', key })
      return {
        sizeBytes: Number(headers['content-length']),
        modifiedAtMs: Date.parse(String(headers['last-modified'])),
        storeNowMs: Date.parse(String(headers.date)),
      }
    } catch (error) {
      // a HEAD has no body to say whether it is the bucket that is missing
      if (error instanceof S3Failure && error.status === 404) return null
      throw error
    }
  }

  async *read(key: string, range?: { readonly start: number; readonly end: number }): AsyncGenerator<Uint8Array> {
    let at = range?.start ?? 0
    let end: number | null = range === undefined ? null : range.end
    let failures = 0
    while (end === null || at <= end) {
      try {
        const asked = at === 0 && end === null ? {} : { range: `bytes=${at}-${end ?? ''}` }
        const answer = await this.#sender.send({ method: 'GET', key, headers: asked })
        if ('range' in asked && answer.statusCode !== 206) {
          answer.destroy()
          throw new S3Failure(501, 'no ranges', 'the store gives no ranges of an object')
        }
        const length = Number(answer.headers['content-length'])
        end ??= at + length - 1
        try {
          for await (const chunk of answer as AsyncIterable<Uint8Array>) {
            at += chunk.length
            failures = 0
            yield chunk
          }
        } catch (cause) {
          throw brokenOff(cause)
        } finally {
          answer.destroy()
        }
        if (at <= end) throw brokenOff(new Error(`${end - at + 1} bytes are missing`))
      } catch (error) {
        failures += 1
        if (!(error instanceof S3Failure && error.isPassing) || failures === TRIES) throw error
        await sleep(this.#tuning.retryMs * 2 ** (failures - 1) * (0.5 + this.#random()))
      }
    }
  }

  async *list(prefix: string): AsyncGenerator<string> {
    let token: string | null = null
    do {
      const query = { 'list-type': '2', prefix, ...(token === null ? {} : { 'continuation-token': token }) }
      const { text } = await this.#ask({ method: 'GET', key: '', query })
      for (const [, entry = ''] of text.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const key = textOf(entry, 'Key')
        if (key !== null) yield key
      }
      token = textOf(text, 'IsTruncated') === 'true' ? textOf(text, 'NextContinuationToken') : null
    } while (token !== null)
  }

  async delete(key: string): Promise<void> {
    await this.#ask({ method: 'DELETE', key })
  }

  async #withTries<T>(action: (count: number) => Promise<T>): Promise<T> {
    for (let count = 1; ; count += 1) {
      try {
        return await action(count)
      } catch (error) {
        if (!(error instanceof S3Failure && error.isPassing) || count === TRIES) throw error
        await sleep(this.#tuning.retryMs * 2 ** (count - 1) * (0.5 + this.#random()))
      }
    }
  }

  /** Sends, and reads the small body. */
  #ask(request: S3Request): Promise<{ headers: IncomingHttpHeaders; text: string }> {
    return this.#withTries(async () => {
      const answer = await this.#sender.send(request)
      return { headers: answer.headers, text: await readText(answer) }
    })
  }

  async #unlessThere(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action()
      return true
    } catch (error) {
      if (error instanceof S3Failure && error.status === 412) return false
      throw error
    }
  }

  async #putParts(key: string, file: StoredFile, isNew: boolean): Promise<boolean> {
    const begun = await this.#ask({
      method: 'POST',
      key,
      query: { uploads: '' },
      headers: { 'x-amz-checksum-algorithm': 'SHA256' },
    })
    const uploadId = textOf(begun.text, 'UploadId')
    if (uploadId === null) throw new S3Failure(502, 'no UploadId', 'the store began an upload without naming it')
    let isDone = false
    try {
      const parts = await this.#sendParts(key, file, uploadId)
      isDone = await this.#unlessThere(() => this.#completeParts(key, file, { uploadId, parts, isNew }))
      return isDone
    } finally {
      // parts of an upload that is neither completed nor aborted are kept, and paid for; a bucket's rule can drop what a crash
      // leaves
      if (!isDone) await this.#ask({ method: 'DELETE', key, query: { uploadId } }).catch(() => undefined)
    }
  }

  async #sendParts(key: string, file: StoredFile, uploadId: string): Promise<string[]> {
    const count = Math.ceil(file.sizeBytes / this.#tuning.partBytes)
    const entries = new Array<string>(count)
    let next = 0
    let isFailed = false
    const sendSome = async (): Promise<void> => {
      while (next < count && !isFailed) {
        const index = next
        next += 1
        const start = index * this.#tuning.partBytes
        const range = { path: file.path, start, sizeBytes: Math.min(this.#tuning.partBytes, file.sizeBytes - start) }
        const bodySha256 = await digestOfRange(range)
        const query = { partNumber: String(index + 1), uploadId }
        try {
          const { headers } = await this.#ask({
            method: 'PUT',
            key,
            query,
            headers: checksum(bodySha256),
            bodySha256,
            body: range,
          })
          entries[index] =
            `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escapeXml(String(headers.etag))}</ETag><ChecksumSHA256>${base64Of(bodySha256)}</ChecksumSHA256></Part>`
        } catch (error) {
          isFailed = true
          throw error
        }
      }
    }
    const results = await Promise.allSettled(Array.from({ length: Math.min(PARTS_AT_ONCE, count) }, sendSome))
    for (const result of results) if (result.status === 'rejected') throw result.reason
    return entries
  }

  async #completeParts(
    key: string,
    file: StoredFile,
    {
      uploadId,
      parts,
      isNew,
    }: { readonly uploadId: string; readonly parts: readonly string[]; readonly isNew: boolean },
  ): Promise<void> {
    const body = Buffer.from(
      `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`,
    )
    const bodySha256 = createHash('sha256').update(body).digest('hex')
    await this.#withTries(async (count) => {
      try {
        const headers = { 'content-type': 'application/xml', ...condition(isNew) }
        const text = await readText(
          await this.#sender.send({ method: 'POST', key, query: { uploadId }, headers, bodySha256, body }),
        )
        // this answer begins before the work is done, so it may be 200 and tell of an error
        const code = /<Error>/.test(text) ? textOf(text, 'Code') : null
        if (code !== null) throw new S3Failure(500, code, textOf(text, 'Message') ?? code)
      } catch (error) {
        // an earlier try was done and its answer lost
        const isLost = count > 1 && error instanceof S3Failure && error.code === 'NoSuchUpload'
        if (!isLost || (await this.head(key))?.sizeBytes !== file.sizeBytes) throw error
      }
    })
  }
}

async function digestOfRange({ path, start, sizeBytes }: FileRange): Promise<string> {
  const hash = createHash('sha256')
  const source = createReadStream(path, { start, end: start + sizeBytes - 1, highWaterMark: 1 << 20 })
  for await (const chunk of source as AsyncIterable<Buffer>) hash.update(chunk)
  return hash.digest('hex')
}

const base64Of = (hex: string): string => Buffer.from(hex, 'hex').toString('base64')

/** The store compares it with what has come, where it does so at all. */
function checksum(sha256: string): Readonly<Record<string, string>> {
  return { 'x-amz-checksum-sha256': base64Of(sha256) }
}

function condition(isNew: boolean): Readonly<Record<string, string>> {
  return isNew ? { 'if-none-match': '*' } : {}
}

function escapeXml(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;')
}
