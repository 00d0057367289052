/**
 * The server's side of the worker protocol (`contract/processes/worker.ts`): every call is fenced by attempt and lease.
 */
import { AppError, ConflictError } from '#base/errors/errors.js'
import { type AttemptClaim, checkLease } from '#service/queue/lease.js'
import type { WorkerApiService } from './worker-calls.js'
import { createWorkerInput } from './worker-input.js'
import { createWorkerOutcome } from './worker-outcome.js'
import { createWorkerProgress } from './worker-progress.js'

export type { WorkerApiService } from './worker-calls.js'

/** What it works with. */
type Context = Parameters<typeof createWorkerInput>[0] &
  Parameters<typeof createWorkerProgress>[0] &
  Parameters<typeof createWorkerOutcome>[0]

export function createWorkerApiService(context: Context): WorkerApiService {
  return {
    authorize: async (claim) => ({ owner: `workers of ${(await checkLease(context.db, claim)).job.entity}` }),
    ...createWorkerInput(context),
    ...createWorkerProgress(context),
    ...createWorkerOutcome(context),
  }
}

/**
 * Reads the headers that prove an attempt.
 *
 * @throws {AppError} `invalid_api_key` without a token
 * @throws {ConflictError} `stale_attempt` if the attempt is no number
 */
export function toAttemptClaim(jobId: string, attempt: string | undefined, token: string | null): AttemptClaim {
  if (token === null) throw new AppError('authentication', 'invalid_api_key', 'the attempt token is not valid')
  if (attempt === undefined || !/^\d{1,9}$/.test(attempt)) {
    throw new ConflictError('stale_attempt', 'header x-trainyard-attempt must be the number of the attempt')
  }
  return { jobId, attempt: Number(attempt), token }
}
