/**
 * Where the rows of rollouts stand. They are `contract/endpoints/rollouts.ts`, which the client and the page know, too.
 */
import { ROLLOUTS } from '#contract/endpoints/rollouts.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const jobDataEndpoints = {
  runs: [{ after: 'GET /v1/preview/training-jobs/{training_job_id}/events', rows: ROLLOUTS }],
} as const satisfies PluginEndpoints
