/**
 * What went wrong with a request. Pure.
 */
import type { ErrorBody } from '#contract/wire/errors.js'

/** A refused or failed request, in the server's words. */
export class ApiError extends Error {
  /** Of HTTP; 0: the server was not reached. */
  readonly status: number
  readonly code: string | null
  readonly hint: string | null
  /** JSON path of what is wrong in what was sent. */
  readonly param: string | null
  readonly requestId: string | null
  /** How long to wait, where the server says so. */
  readonly retryAfterSeconds: number | null

  constructor(
    message: string,
    facts: {
      readonly status: number
      readonly code?: string | null
      readonly hint?: string | null
      readonly param?: string | null
      readonly requestId?: string | null
      readonly retryAfterSeconds?: number | null
    },
  ) {
    super(message)
    this.name = 'ApiError'
    this.status = facts.status
    this.code = facts.code ?? null
    this.hint = facts.hint ?? null
    this.param = facts.param ?? null
    this.requestId = facts.requestId ?? null
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null
  }
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError(error instanceof Error ? error.message : String(error), { status: 0 })
}

/** What an answer says that is none. */
export async function readError(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => null)) as ErrorBody | null
  const error = typeof body?.error === 'object' ? body.error : null
  const wait = Number(response.headers.get('retry-after') ?? Number.NaN)
  return new ApiError(
    error?.message ?? (typeof body?.error === 'string' ? body.error : `The server answered ${response.status}.`),
    {
      status: response.status,
      code: error?.code == null ? null : String(error.code),
      hint: error?.hint ?? null,
      param: error?.param ?? null,
      requestId: body?.request_id ?? response.headers.get('x-request-id'),
      retryAfterSeconds: Number.isFinite(wait) ? wait : null,
    },
  )
}
