/**
 * How an episode can fail, in words that become exceptions of its group. A failure is data: it is counted by its kind and
 * never trained on.
 */
import { AppError } from '#base/errors/errors.js'
import { ApiError, ConnectionError, RequestTimeoutError } from '#sdk/client/errors.js'

export const FAILURE_KINDS = [
  'env_timeout',
  'env_crashed',
  'env_error',
  'env_protocol',
  'reward_invalid',
  'model_error',
] as const
export type FailureKind = (typeof FAILURE_KINDS)[number]

export class EnvironmentFailure extends AppError {
  readonly kind: FailureKind
  /** Whether it never began to work: a run whose starts fail in turn has nothing to wait for. */
  readonly isStart: boolean

  constructor(
    kind: FailureKind,
    message: string,
    {
      isStart = false,
      ...options
    }: { readonly isStart?: boolean; readonly hint?: string; readonly cause?: unknown } = {},
  ) {
    super('internal', kind, message, options)
    this.kind = kind
    this.isStart = isStart
  }
}

/** What was thrown during an episode, as a failure of it. */
export function toFailure(error: unknown): EnvironmentFailure {
  if (error instanceof EnvironmentFailure) return error
  const message = error instanceof Error ? error.message : String(error)
  const isModel = error instanceof ApiError || error instanceof ConnectionError || error instanceof RequestTimeoutError
  return new EnvironmentFailure(isModel ? 'model_error' : 'env_error', message, { cause: error })
}

/** Whether an exception of a group, by its type, is one of these. */
export function isFailureKind(type: string): type is FailureKind {
  return FAILURE_KINDS.some((kind) => kind === type)
}
