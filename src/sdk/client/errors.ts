/**
 * What can go wrong between the client and the service, as `AppError`s: the server's own refusal, or no answer at all.
 *
 * Reads both error bodies the service sends: OpenAI's `{"error": {…}}` and FastAPI's `{"detail": …}`.
 */
import { AppError, type ErrorCategory } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'

const IS_IT_OURS =
  'is this the address of a Trainyard server (`trainyard whoami` shows where it comes from), of a version like this one (`trainyard version`)?'

/** The service answered with an error status. */
export class ApiError extends AppError {
  readonly status: number
  /** From the `x-request-id` header or the body; null if the server sent none. */
  readonly requestId: string | null
  /** Milliseconds the server asked to wait; null if it did not. */
  readonly retryAfterMs: number | null
  /** The parsed body, or its first 500 characters when it was not JSON. */
  readonly body: unknown

  constructor(reply: { status: number; body: unknown; requestId: string | null; retryAfterMs: number | null }) {
    const parts = readErrorBody(reply.body)
    const message = parts.message ?? `HTTP ${reply.status}, in another form than a Trainyard server's`
    super(categoryOf(reply.status), parts.code ?? defaultCode(reply.status), message, {
      param: parts.param ?? undefined,
      hint: parts.hint ?? (parts.message === null ? hintOfForeign(reply.status) : undefined),
    })
    this.status = reply.status
    this.requestId = reply.requestId ?? parts.requestId
    this.retryAfterMs = reply.retryAfterMs
    this.body = reply.body
  }
}

/** No connection, or it broke before the answer was complete. */
export class ConnectionError extends AppError {
  constructor(baseUrl: string, cause: unknown) {
    super('unavailable', 'connection_failed', `cannot reach ${baseUrl} (${describeNetworkCause(cause)})`, { cause })
  }
}

/** The service did not answer within the limit. */
export class RequestTimeoutError extends AppError {
  constructor(baseUrl: string, timeoutMs: number) {
    super('unavailable', 'request_timeout', `${baseUrl} did not answer within ${timeoutMs / 1000} s`)
  }
}

/** The answer is not what the contract promises. */
export class ProtocolError extends AppError {
  constructor(message: string, cause?: unknown) {
    super('internal', 'unexpected_response', message, {
      cause,
      hint: IS_IT_OURS,
    })
  }
}

interface ErrorParts {
  readonly message: string | null
  readonly code: string | null
  readonly param: string | null
  readonly hint: string | null
  readonly requestId: string | null
}

/** Category of an HTTP status; unknown 4xx count as the request's fault. */
export function categoryOf(status: number): ErrorCategory {
  switch (status) {
    case 401:
      return 'authentication'
    case 402:
    case 403:
      return 'permission'
    case 404:
    case 410:
      return 'not_found'
    case 409:
      return 'conflict'
    case 413:
      return 'too_large'
    case 429:
      return 'rate_limited'
    case 501:
      return 'not_implemented'
    case 502:
    case 503:
    case 504:
      return 'unavailable'
    default:
      return status >= 500 ? 'internal' : 'invalid_request'
  }
}

/** What to do about an answer that the service did not write: a proxy's, or another program's. */
function hintOfForeign(status: number): string {
  switch (status) {
    case 413:
      return 'a proxy before the server takes no body of this size: raise its limit (nginx: client_max_body_size 0)'
    case 502:
    case 503:
      return 'a proxy answers for a server that it does not reach: is the server running, at the address that the proxy has?'
    case 504:
      return 'a proxy before the server waits no longer: raise its limit (nginx: proxy_read_timeout 1h)'
    default:
      return IS_IT_OURS
  }
}

function defaultCode(status: number): string {
  return `http_${status}`
}

function readErrorBody(body: unknown): ErrorParts {
  const root = asObject(body)
  const error = asObject(root?.['error'])
  const detail = root?.['detail']
  const first = Array.isArray(detail) ? asObject(detail[0]) : null
  return {
    message: text(error?.['message']) ?? text(root?.['error']) ?? text(detail) ?? detailMessage(first),
    code: text(error?.['code']) ?? text(first?.['type']),
    param: text(error?.['param']) ?? detailPath(first),
    hint: text(error?.['hint']),
    requestId: text(error?.['request_id']) ?? text(root?.['request_id']),
  }
}

function detailPath(item: Readonly<Record<string, unknown>> | null): string | null {
  const loc = item?.['loc']
  if (!Array.isArray(loc)) return null
  return loc.slice(1).reduce<string>((path, part) => {
    if (typeof part === 'number') return `${path}[${part}]`
    const name = typeof part === 'string' ? part : '?'
    return path === '' ? name : `${path}.${name}`
  }, '')
}

function detailMessage(item: Readonly<Record<string, unknown>> | null): string | null {
  const message = text(item?.['msg'])
  const path = detailPath(item)
  return message === null || path === null || path === '' ? message : `${path}: ${message}`
}

function asObject(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, JsonValue>>)
    : null
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

function describeNetworkCause(cause: unknown): string {
  const seen = new Set<unknown>()
  for (let error = cause; error instanceof Error && !seen.has(error); error = error.cause) {
    seen.add(error)
    const inner = error instanceof AggregateError ? error.errors[0] : error
    const code = inner instanceof Error && 'code' in inner ? String(inner.code) : ''
    const known = networkCauses[code]
    if (known !== undefined) return known
    if (error.cause === undefined) return code === '' ? error.message : `${code}: ${error.message}`
  }
  return 'connection failed'
}

const networkCauses: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed by the server',
  UND_ERR_SOCKET: 'connection closed by the server',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name lookup failed',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'the answer stalled',
  EPROTO: 'TLS failed: does the server speak https?',
}
