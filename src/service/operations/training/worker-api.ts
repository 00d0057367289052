/**
 * The server's side of the worker protocol (`contract/processes/worker.ts`): every call is fenced by attempt and lease.
 */
import { checkLease } from '#service/queue/lease.js'
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
