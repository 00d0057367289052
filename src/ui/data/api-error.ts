/**
 * What went wrong with a request. Pure.
 */

/** A refused or failed request, in the server's words. */
export class ApiError extends Error {
  /** Of HTTP; 0: the server was not reached. */
  readonly status: number
  readonly code: string | null
  readonly hint: string | null
  readonly requestId: string | null
  /** How long to wait, where the server says so. */
  readonly retryAfterSeconds: number | null

  constructor(
    message: string,
    facts: {
      readonly status: number
      readonly code?: string | null
      readonly hint?: string | null
      readonly requestId?: string | null
      readonly retryAfterSeconds?: number | null
    },
  ) {
    super(message)
    this.name = 'ApiError'
    this.status = facts.status
    this.code = facts.code ?? null
    this.hint = facts.hint ?? null
    this.requestId = facts.requestId ?? null
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null
  }
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError(error instanceof Error ? error.message : String(error), { status: 0 })
}
