/**
 * The endpoint by which a worker on another machine gets a job (`contract/processes/worker-claim.ts`).
 */
import { workerClaimRequestSchema, workerClaimSchema } from '../processes/worker-claim.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

export const WORKER_CLAIMS = endpoints({
  'POST /internal/worker/claims': {
    tag: null,
    origin: 'ours',
    scope: 'worker',
    summary: 'Ask for a job, and wait for one',
    body: small(workerClaimRequestSchema),
    answer: workerClaimSchema,
  },
})
