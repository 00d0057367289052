/**
 * One HTTP exchange with the service: credentials, timeout, retries, errors. Knows no endpoint.
 *
 * What is retried: 429 and 503 always (the server did nothing), broken connections and 502/504 only for GET and what
 * may be repeated, a refused connection never. Waits follow `retry-after-ms` and `Retry-After`, else 0.5 s doubling up to 8 s with jitter.
 */
import { stringifyExact } from '#base/json/exact-json.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import type { JsonValue } from '#base/util/json.js'
import { createRng, type Rng, randomSeed } from '#base/util/rng.js'
import { ApiError, ConnectionError, ProtocolError, RequestTimeoutError } from './errors.js'
import { startExchange } from './exchange.js'
import { type Fetch, lightFetch } from './light-fetch.js'
import type { Check } from './shape.js'

/** One finished attempt, for `--verbose`; never bodies or keys. */
export interface RequestRecord {
  readonly method: string
  readonly path: string
  /** null when no answer came. */
  readonly status: number | null
  readonly durationMs: number
  readonly requestId: string | null
}

export interface HttpOptions {
  /** Origin and optional prefix, without `/v1`. */
  readonly baseUrl: string
  readonly apiKey: string | null
  /** Longest silence of the server in an ordinary request, milliseconds (default 30 000). */
  readonly timeoutMs?: number
  /** The same for answers of a model, uploads and downloads, milliseconds (default 1 200 000, as ART's client). */
  readonly longTimeoutMs?: number
  /** Attempts after the first one (default 2). */
  readonly maxRetries?: number
  readonly userAgent?: string
  /** Default: one that waits as long as the limits above say, see `light-fetch.ts`. */
  readonly fetch?: Fetch
  readonly clock?: Clock
  readonly rng?: Rng
  /** Waits between attempts; rejects when the signal aborts. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>
  readonly onRequest?: (record: RequestRecord) => void
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE' | 'PUT'
  /** From the root, for example `/v1/preview/models`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly json?: unknown
  readonly form?: FormData
  /** A body that is neither of them. */
  readonly bytes?: { readonly contentType: string; readonly data: Uint8Array }
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** Use the long limit. */
  readonly isLong?: boolean
  /** Instead of the client's own. */
  readonly maxRetries?: number
  /** A second request does what the first one did: it is retried as a GET is. */
  readonly isRepeatable?: boolean
}

export interface Http {
  readonly baseUrl: string
  /** Sends and reads a JSON answer, which `check` finds right; without one the caller looks itself. */
  json<T>(request: HttpRequest, check?: Check<T>): Promise<T>
  /** Sends and returns the open answer with a success status; the caller reads the body. */
  open(request: HttpRequest): Promise<Response>
  /** The wait used between attempts, for those who poll. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void>
}

/** Creates the exchange; opens no connection. */
export function createHttp(options: HttpOptions): Http {
  const clock = options.clock ?? systemClock
  const rng = options.rng ?? createRng(randomSeed())
  const send = options.fetch ?? lightFetch
  const pause = options.sleep ?? sleep

  async function attempt(request: HttpRequest): Promise<Response> {
    const timeoutMs = request.isLong === true ? (options.longTimeoutMs ?? 1_200_000) : (options.timeoutMs ?? 30_000)
    const exchange = startExchange(request.signal, timeoutMs)
    /** What an end or a broken connection means to the caller, before the answer and in its middle alike. */
    function toError(cause: unknown): unknown {
      switch (exchange.endCause()) {
        case 'aborted':
          return request.signal?.reason
        case 'timed_out':
          return new RequestTimeoutError(options.baseUrl, timeoutMs)
        case null:
          return new ConnectionError(options.baseUrl, cause)
      }
    }
    const startMs = clock.monotonicMs()
    let status: number | null = null
    let requestId: string | null = null
    try {
      const response = await send(buildUrl(options.baseUrl, request), buildInit(request, options, exchange.signal))
      status = response.status
      requestId = response.headers.get('x-request-id')
      const answer = exchange.guard(response, toError)
      if (!response.ok) throw await readError(answer)
      return answer
    } catch (error) {
      exchange.release()
      throw error instanceof ApiError ? error : toError(error)
    } finally {
      const durationMs = clock.monotonicMs() - startMs
      options.onRequest?.({ method: request.method, path: request.path, status, durationMs, requestId })
    }
  }

  async function open(request: HttpRequest): Promise<Response> {
    for (let retry = 0; ; retry += 1) {
      request.signal?.throwIfAborted()
      try {
        return await attempt(request)
      } catch (error) {
        if (retry >= (request.maxRetries ?? options.maxRetries ?? 2) || !isRetryable(error, request)) throw error
        await pause(waitMs(error, retry, rng), request.signal)
      }
    }
  }

  return {
    baseUrl: options.baseUrl,
    open,
    sleep: pause,
    async json<T>(request: HttpRequest, check?: Check<T>): Promise<T> {
      const response = await open({ ...request, headers: { accept: 'application/json', ...request.headers } })
      return await readJson(response, { source: sourceOf(options.baseUrl, request), check })
    },
  }
}

/** Names an answer in a sentence: `http://127.0.0.1:8642 (GET /v1/whoami)`. */
export function sourceOf(baseUrl: string, { method, path }: Pick<HttpRequest, 'method' | 'path'>): string {
  return `${baseUrl} (${method} ${path})`
}

/** Reads a success body as JSON. @throws {ProtocolError} for text that is none, and for an answer that `check` finds wrong */
export async function readJson<T>(
  response: Response,
  { source, check }: { readonly source: string; readonly check?: Check<T> | undefined },
): Promise<T> {
  return parseAnswer(await response.text(), { source, check })
}

/** The same for a text that was read already, as a message of a stream. */
export function parseAnswer<T>(
  text: string,
  { source, check }: { readonly source: string; readonly check?: Check<T> | undefined },
): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new ProtocolError(`${source} answered with ${describeText(text)}, expected JSON`, error)
  }
  return assertAnswer(value, { source, check })
}

/** @throws {ProtocolError} where the answer parts from what `check` expects */
export function assertAnswer<T>(
  value: unknown,
  { source, check }: { readonly source: string; readonly check?: Check<T> | undefined },
): T {
  const found = check?.find(value, '') ?? null
  if (found === null) return value as T
  const place = found.path === '' ? 'as its answer' : `as "${found.path}"`
  throw new ProtocolError(`${source} gave ${found.given} ${place}, expected ${found.expected}`)
}

function describeText(text: string): string {
  if (text.trim() === '') return 'nothing'
  if (/^\s*<(!doctype|html|\?xml|head|body)/i.test(text)) return 'a page of HTML'
  return `text that is no JSON (${JSON.stringify(text.slice(0, 40))})`
}

/** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(finish, ms)
    function finish(): void {
      signal?.removeEventListener('abort', abort)
      resolve()
    }
    function abort(): void {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', abort, { once: true })
  })
}

function buildUrl(baseUrl: string, request: HttpRequest): string {
  const url = new URL(`${baseUrl.replace(/\/+$/, '')}${request.path}`)
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  return url.href
}

function buildInit(request: HttpRequest, options: HttpOptions, signal: AbortSignal): RequestInit {
  const headers: Record<string, string> = { ...request.headers }
  if (options.apiKey !== null) headers['authorization'] = `Bearer ${options.apiKey}`
  if (options.userAgent !== undefined) headers['user-agent'] = options.userAgent
  const init: RequestInit = { method: request.method, headers, signal, redirect: 'error' }
  if (request.form !== undefined) init.body = request.form
  if (request.bytes !== undefined) {
    headers['content-type'] = request.bytes.contentType
    init.body = request.bytes.data
  }
  if (request.json !== undefined) {
    headers['content-type'] = 'application/json'
    init.body = stringifyExact(request.json as JsonValue)
  }
  return init
}

async function readError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '')
  let body: JsonValue = text.slice(0, 500)
  try {
    body = JSON.parse(text) as JsonValue
  } catch {
    // Proxies answer with HTML: the status alone is shown.
  }
  const requestId = response.headers.get('x-request-id')
  return new ApiError({ status: response.status, body, requestId, retryAfterMs: readRetryAfterMs(response.headers) })
}

function readRetryAfterMs(headers: Headers): number | null {
  const precise = headers.get('retry-after-ms')
  if (precise !== null && Number(precise) >= 0) return Number(precise)
  const seconds = headers.get('retry-after')
  return seconds !== null && Number(seconds) >= 0 ? Number(seconds) * 1000 : null
}

function isRetryable(error: unknown, { method, isRepeatable }: HttpRequest): boolean {
  const isSafe = method === 'GET' || isRepeatable === true
  if (error instanceof ApiError) {
    return error.status === 429 || error.status === 503 || (isSafe && [502, 504].includes(error.status))
  }
  if (!(error instanceof ConnectionError)) return false
  return isSafe && !error.message.includes('connection refused')
}

/** A server that asks for more than a minute is reported instead of waited for. */
function waitMs(error: unknown, retry: number, rng: Rng): number {
  if (error instanceof ApiError && error.retryAfterMs !== null) {
    if (error.retryAfterMs > 60_000) throw error
    return error.retryAfterMs
  }
  return Math.min(8000, 500 * 2 ** retry) * (0.75 + 0.5 * rng.uniform())
}
