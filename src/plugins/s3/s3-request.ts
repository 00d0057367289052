/**
 * One signed request to an S3 endpoint, and what its failures mean. `aws4fetch` signs; the bytes travel by `node:http`, because
 * a body read from a file needs its length said, which `fetch` does not allow. Knows no blob.
 */
import { createReadStream } from 'node:fs'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { AwsV4Signer } from 'aws4fetch'
import { AppError } from '#base/errors/errors.js'
import type { S3Address } from './s3-address.js'
import type { S3Credentials } from './s3-credentials.js'

/** Bytes of a file, from `start` on. */
export interface FileRange {
  readonly path: string
  readonly start: number
  readonly sizeBytes: number
}

export interface S3Request {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Of the object, with the prefix; empty for the bucket itself. */
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** SHA-256 of the body, hex; needed with a body. */
  readonly bodySha256?: string
  readonly body?: FileRange | Buffer
}

/** A 2xx answer; its body is to be read or destroyed. */
export type S3Answer = IncomingMessage

/** Why there is no answer to work with. */
export class S3Failure extends Error {
  /** 0: none came. */
  readonly status: number
  /** S3's word, for example `NoSuchKey`, or the system's, for example `ECONNREFUSED`. */
  readonly code: string
  /** What the store said of it: the bucket's region, when another was used. */
  readonly region: string | null

  constructor(status: number, code: string, message: string, options: { cause?: unknown; region?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'S3Failure'
    this.status = status
    this.code = code
    this.region = options.region ?? null
  }

  /** The same request may well succeed a moment later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500 || PASSING.has(this.code)
  }
}

/** Answers of other classes that mean: again. The digests are of bytes that were damaged on the way. */
const PASSING = new Set([
  'RequestTimeout',
  'ConditionalRequestConflict',
  'OperationAborted',
  'BadDigest',
  'XAmzContentSHA256Mismatch',
])

export interface S3Sender {
  /** @throws {S3Failure}; {AppError} `blob_store_keys_missing` */
  send(request: S3Request): Promise<S3Answer>
  /** The address of an object with a signature in it, with which anybody reads it for so long. */
  presign(key: string, seconds: number): Promise<string>
}

export interface S3SenderOptions {
  readonly credentials: () => Promise<S3Credentials>
  /** Silence of the store after which a request has failed, milliseconds. */
  readonly silenceMs: number
}

/** SHA-256 of nothing. */
const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
/** Longest error body that is read. */
const MAX_ERROR_BYTES = 64 * 1024

export function createS3Sender(address: S3Address, options: S3SenderOptions): S3Sender {
  const isHttps = address.endpoint.protocol === 'https:'
  const agent = new (isHttps ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 64, timeout: options.silenceMs })
  /** Derived keys of the day. */
  const cache = new Map<string, ArrayBuffer>()

  function urlOf({ key, query = {} }: S3Request): URL {
    const { endpoint, bucket } = address
    const host = address.style === 'host' ? `${bucket}.${endpoint.host}` : endpoint.host
    const path = address.style === 'host' ? `/${key}` : key === '' ? `/${bucket}` : `/${bucket}/${key}`
    const search = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    return new URL(`${endpoint.protocol}//${host}${path}${search.length === 0 ? '' : `?${search.join('&')}`}`)
  }

  async function send(request: S3Request): Promise<S3Answer> {
    const url = urlOf(request)
    const { method, body } = request
    const sha256 = request.bodySha256 ?? EMPTY_SHA256
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      headers: { ...request.headers, 'x-amz-content-sha256': sha256 },
      service: 's3',
      region: address.region,
      cache,
      ...(await options.credentials()),
    })
    const { headers } = await signer.sign()
    const length = body === undefined ? 0 : 'path' in body ? body.sizeBytes : body.length
    if (body !== undefined || method === 'PUT' || method === 'POST') headers.set('content-length', String(length))
    const answer = await exchange(url, { method, headers: Object.fromEntries(headers) }, body)
    const { statusCode: status = 0 } = answer
    if (status >= 200 && status < 300) return answer
    throw await toFailure(answer, status)
  }

  async function presign(key: string, seconds: number): Promise<string> {
    const signer = new AwsV4Signer({
      method: 'GET',
      url: urlOf({ method: 'GET', key, query: { 'X-Amz-Expires': String(seconds) } }).href,
      signQuery: true,
      service: 's3',
      region: address.region,
      cache,
      ...(await options.credentials()),
    })
    return (await signer.sign()).url.href
  }

  function exchange(
    url: URL,
    init: { readonly method: string; readonly headers: Record<string, string> },
    body: S3Request['body'],
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const outgoing = (isHttps ? httpsRequest : httpRequest)(url, { ...init, agent, timeout: options.silenceMs })
      const fail = (cause: Error): void => {
        outgoing.destroy()
        const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : 'no answer'
        reject(new S3Failure(0, code, cause.message || code, { cause }))
      }
      outgoing.once('response', resolve)
      outgoing.on('error', fail)
      // also in the middle of an answer, which then breaks off
      outgoing.once('timeout', () => outgoing.destroy(new Error(`silence for ${options.silenceMs / 1000} s`)))
      if (body === undefined) outgoing.end()
      else if (!('path' in body)) outgoing.end(body)
      else if (body.sizeBytes === 0) outgoing.end()
      else {
        const { path, start, sizeBytes } = body
        const source = createReadStream(path, { start, end: start + sizeBytes - 1, highWaterMark: 1 << 18 })
        source.once('error', (cause) => {
          outgoing.destroy()
          // our own disk: not the store's fault, and not to be tried again
          reject(cause)
        })
        outgoing.once('close', () => source.destroy())
        source.pipe(outgoing)
      }
    })
  }

  return { send, presign }
}

/** All of a small body, as text. @throws {S3Failure} if it breaks off */
export async function readText(answer: S3Answer, maxBytes = 16 * 1024 ** 2): Promise<string> {
  const chunks: Uint8Array[] = []
  let total = 0
  try {
    for await (const chunk of answer as AsyncIterable<Uint8Array>) {
      total += chunk.length
      if (total > maxBytes) throw new Error(`the answer has more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
  } catch (cause) {
    throw brokenOff(cause)
  }
  return Buffer.concat(chunks).toString('utf8')
}

export function brokenOff(cause: unknown): S3Failure {
  const message = cause instanceof Error ? cause.message : String(cause)
  return new S3Failure(0, 'broken off', `the answer broke off: ${message}`, { cause })
}

/** The text of the first such element; null if there is none. */
export function textOf(xml: string, element: string): string | null {
  const text = new RegExp(`<${element}>([^<]*)</${element}>`).exec(xml)?.[1]
  if (text === undefined) return null
  return text
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&quot;/g, '"')
    .replace(/&#39;|&apos;/g, "'")
    .replace(/&amp;/g, '&')
}

async function toFailure(answer: S3Answer, status: number): Promise<S3Failure> {
  const xml = await readText(answer, MAX_ERROR_BYTES).catch(() => '')
  const region = answer.headers['x-amz-bucket-region']
  const code = textOf(xml, 'Code') ?? (status === 412 ? 'PreconditionFailed' : `status ${status}`)
  const message = textOf(xml, 'Message') ?? code
  return new S3Failure(status, code, message, typeof region === 'string' ? { region } : {})
}

/** What the store's refusal means for whoever set it up, and what to do about it. */
const REFUSALS: Readonly<Record<string, readonly [problem: string, hint: string]>> = {
  NoSuchBucket: ['the bucket does not exist', 'make it, or name another one in --blob-store'],
  InvalidAccessKeyId: ['the access key is not known there', 'look at AWS_ACCESS_KEY_ID and at the endpoint'],
  SignatureDoesNotMatch: ['the secret key does not fit the access key', 'look at AWS_SECRET_ACCESS_KEY'],
  AccessDenied: [
    'these keys may not do that',
    'they need s3:GetObject, PutObject, DeleteObject, AbortMultipartUpload of the prefix and s3:ListBucket',
  ],
  ExpiredToken: ['the session token has expired', 'renew AWS_SESSION_TOKEN and start again, or keep keys in a file'],
  RequestTimeTooSkewed: ["this machine's clock is too far from the store's", 'set the clock, for example by NTP'],
  AuthorizationHeaderMalformed: ['the bucket is in another region', 'set region= in --blob-store, or AWS_REGION'],
  PermanentRedirect: ['the bucket is in another region', 'set region= in --blob-store, or AWS_REGION'],
}

/** A failure in our words: 503, so that clients and workers come again. */
export function toUnavailable(address: S3Address, error: unknown): unknown {
  if (!(error instanceof S3Failure)) return error
  const { status, code, message, region } = error
  const at = `blob store "${address.name}"`
  if (error.isPassing) {
    const said =
      status === 0 ? `gives no answer at ${address.endpoint.origin} (${code}: ${message})` : `answers ${status} ${code}`
    return new AppError('unavailable', 'blob_store_unavailable', `${at} ${said}`, {
      hint: 'try again; look at the endpoint and the network if it comes back',
      cause: error,
    })
  }
  const word = status === 301 || status === 307 ? 'PermanentRedirect' : status === 403 ? 'AccessDenied' : code
  const [problem, hint] = REFUSALS[code] ??
    REFUSALS[word] ?? ['it answers with an error', 'look at the address in --blob-store']
  const where = region === null || region === address.region ? '' : `: ${region}, not ${address.region}`
  return new AppError('unavailable', 'blob_store_refused', `${at} refuses: ${problem}${where} (${status} ${code})`, {
    hint,
    cause: error,
  })
}
