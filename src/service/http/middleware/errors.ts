/**
 * Errors → HTTP: the only place that knows status codes. A total map over `ErrorCategory`.
 *
 * Preview routes answer `{detail, error, request_id}`, chat routes vLLM's envelope. Only an `AppError` is shown;
 * anything else is logged with its cause and becomes a plain 500.
 */
import type { ErrorHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { AppError, type ErrorCategory } from '#base/errors/errors.js'
import { type ErrorBody, RequestValidationError, toProblem, type ValidationProblem } from '#contract/wire/errors.js'
import type { AppEnvironment, AppOptions, ErrorForm, RequestContext } from '../environment.js'
import { createRouteFinder } from '../handlers.js'
import { shownPath } from './access-log.js'

interface Mapping {
  readonly status: ContentfulStatusCode
  readonly type: string
  /** vLLM's type for the same thing. */
  readonly chatType: string
}

const MAPPINGS: Readonly<Record<ErrorCategory, Mapping>> = {
  invalid_request: { status: 400, type: 'invalid_request_error', chatType: 'BadRequestError' },
  authentication: { status: 401, type: 'authentication_error', chatType: 'AuthenticationError' },
  permission: { status: 403, type: 'permission_error', chatType: 'PermissionDeniedError' },
  not_found: { status: 404, type: 'invalid_request_error', chatType: 'NotFoundError' },
  conflict: { status: 409, type: 'conflict_error', chatType: 'ConflictError' },
  too_large: { status: 413, type: 'invalid_request_error', chatType: 'RequestTooLargeError' },
  rate_limited: { status: 429, type: 'rate_limit_error', chatType: 'RateLimitError' },
  unavailable: { status: 503, type: 'overloaded_error', chatType: 'ServiceUnavailableError' },
  not_implemented: { status: 501, type: 'not_implemented_error', chatType: 'NotImplementedError' },
  internal: { status: 500, type: 'server_error', chatType: 'InternalServerError' },
  // no client is left to read it; the log shows 499
  cancelled: { status: 499 as ContentfulStatusCode, type: 'cancelled', chatType: 'Cancelled' },
}

/** Codes whose status differs from their category's. */
const STATUS_BY_CODE: Readonly<Record<string, ContentfulStatusCode>> = {
  unsupported_media_type: 415,
  request_timeout: 408,
  method_not_allowed: 405,
  worker_version: 410,
}

/** Internal errors whose own words are for the client: they name what is broken and no path of the server. */
const SHOWN_INTERNAL_CODES: ReadonlySet<string> = new Set([
  'blob_corrupt',
  'blob_missing',
  'checkpoint_corrupt',
  'data_dir_removed',
  'non_finite_logits',
  'rollouts_damaged',
])

export function handleErrors(
  options: Pick<AppOptions, 'logger' | 'translateError' | 'errorForms' | 'table'>,
): ErrorHandler<AppEnvironment> {
  const routeOf = createRouteFinder(options.table)
  // its SDKs raise `BadRequestError` for a 400
  const isOpenAi = (c: RequestContext): boolean =>
    matchedRoutes(c).some((bound) => bound.method !== 'ALL' && routeOf(bound)?.origin === 'OpenAI')
  return function respondWithError(raw, c) {
    const error = toAppError(options.translateError(raw) ?? translatedCause(raw, options) ?? raw)
    if (error.category === 'internal' || error.category === 'unavailable') {
      options.logger.error(
        { request_id: c.get('requestId'), method: c.req.method, path: shownPath(c), code: error.code, err: raw },
        'http.error',
      )
    }
    const retryAfter = retryAfterSeconds(error)
    if (retryAfter !== null) c.header('retry-after', String(retryAfter))
    // what is left of the body is not read: the client must not send its next request behind it
    if (leavesBody(c)) c.header('connection', 'close')
    if (isFinal(error)) c.header('x-should-retry', 'false')
    const form = options.errorForms.find(({ paths }) => paths.test(c.req.path))
    if (form !== undefined) return respondIn(form, c, error)
    return isChatRoute(c) ? respondToChat(c, error) : respondToPreview(c, error, isOpenAi(c))
  }
}

/** What a child or a thread met and could not explain may be a full disk all the same. */
function translatedCause(raw: unknown, { translateError }: Pick<AppOptions, 'translateError'>): AppError | null {
  return raw instanceof AppError && raw.category === 'internal' ? translateError(raw.cause) : null
}

/** OpenAI's SDKs repeat a 409 and every 5xx by themselves; these never heal by waiting. */
function isFinal({ category, code }: AppError): boolean {
  return category === 'conflict' || category === 'not_implemented' || SHOWN_INTERNAL_CODES.has(code)
}

/** The error of vLLM's streams: sent as a last event once the status can no longer change. */
export function toStreamError(raw: unknown): ErrorBody {
  const error = toAppError(raw)
  const { status, chatType } = MAPPINGS[error.category]
  return { error: { message: chatMessage(error), type: chatType, param: error.param ?? null, code: status } }
}

/** What is shown of an error: its type for clients, and its words where they are for others. */
export function shownError(raw: unknown): {
  readonly error: AppError
  readonly type: string
  readonly message: string
} {
  const error = toAppError(raw)
  return { error, type: MAPPINGS[error.category].type, message: chatMessage(error) }
}

function respondIn({ requestIdHeader, toBody }: ErrorForm, c: RequestContext, error: AppError): Response {
  const requestId = c.get('requestId')
  c.header(requestIdHeader, requestId)
  return c.json(toBody(error, requestId), statusOf(error))
}

function respondToChat(c: RequestContext, error: AppError): Response {
  const mapping = MAPPINGS[error.category]
  // vLLM's 401 is a plain string, and clients' tests compare it
  if (error.category === 'authentication') return c.json({ error: 'Unauthorized' }, 401)
  const isMedia = error.code === 'unsupported_media_type'
  const status = isMedia ? 400 : statusOf(error)
  const problems = problemsOf(error, 'body')
  const isValidation = error instanceof RequestValidationError || error.code === 'malformed_json' || isMedia
  const body: ErrorBody = {
    error: {
      message: chatMessage(error),
      type: isValidation ? 'Bad Request' : mapping.chatType,
      param: error.param ?? null,
      code: status,
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      // as llama.cpp: `n_prompt_tokens` and `n_ctx` stand beside the message, for agents that compact their history
      ...error.details,
    },
    ...(status === 400 && problems !== null ? { detail: problems } : {}),
    request_id: c.get('requestId'),
  }
  return c.json(body, status)
}

/** @param isOpenAi 400 for a field that is wrong */
function respondToPreview(c: RequestContext, error: AppError, isOpenAi: boolean): Response {
  const problems = problemsOf(error, c.req.method === 'GET' ? 'query' : 'body')
  const status = problems === null || isOpenAi ? statusOf(error) : 422
  if (status === 401) c.header('www-authenticate', 'Bearer')
  const body: ErrorBody = {
    detail: problems ?? error.message,
    error: {
      message: error instanceof RequestValidationError ? error.sentence : error.message,
      type: MAPPINGS[error.category].type,
      param: error.param ?? null,
      code: error.code,
      hint: error.hint ?? null,
      ...(error.details === undefined ? {} : { details: { ...error.details } as never }),
    },
    request_id: c.get('requestId'),
  }
  return c.json(body, status)
}

/** Whether much of the body may still be on its way; a little is read and dropped. */
function leavesBody(c: RequestContext): boolean {
  if (c.get('isBodyRead') === true) return false
  return c.req.header('transfer-encoding') !== undefined || Number(c.req.header('content-length') ?? 0) > 65_536
}

function statusOf(error: AppError): ContentfulStatusCode {
  return STATUS_BY_CODE[error.code] ?? MAPPINGS[error.category].status
}

/** The published problem list, for errors that name a field. */
function problemsOf(error: AppError, root: string): (readonly ValidationProblem[] & ValidationProblem[]) | null {
  if (error instanceof RequestValidationError) return [...error.problems]
  if (error.category !== 'invalid_request' || STATUS_BY_CODE[error.code] !== undefined) return null
  if (error.code === 'malformed_json') return [{ loc: [root], msg: error.message, type: 'json_invalid' }]
  return error.param === undefined ? null : [toProblem(root, error.param, error.message, error.code)]
}

function chatMessage(error: AppError): string {
  return error.category === 'internal' && !SHOWN_INTERNAL_CODES.has(error.code)
    ? 'Internal server error'
    : error.message
}

function isChatRoute(c: RequestContext): boolean {
  return /^\/(?:v1\/(?:chat\/|completions\b|responses\b)|(?:de)?tokenize\b|tokenizer_info\b|apply-template\b|invocations\b)/.test(
    c.req.path,
  )
}

function retryAfterSeconds(error: AppError): number | null {
  if (error.category !== 'rate_limited' && error.category !== 'unavailable') return null
  const given = error.details?.['retry_after_seconds']
  return typeof given === 'number' ? given : 1
}

function toAppError(raw: unknown): AppError {
  if (raw instanceof AppError) {
    if (raw.category !== 'internal') return raw
    if (SHOWN_INTERNAL_CODES.has(raw.code)) return raw
    // an internal error's text may name paths of the server
    return new AppError('internal', raw.code, 'Internal server error', { cause: raw })
  }
  return new AppError('internal', 'internal_error', 'Internal server error', { cause: raw })
}
