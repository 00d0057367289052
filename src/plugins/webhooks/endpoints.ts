/**
 * Where the rows of webhooks stand. They are `contract/endpoints/webhooks.ts`, which the client and the page know, too.
 */
import { WEBHOOKS } from '#contract/endpoints/webhooks.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const webhookEndpoints = {
  runs: [
    {
      after: 'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/scores',
      rows: WEBHOOKS,
    },
  ],
  sections: [{ name: 'Webhooks', after: 'Files' }],
} as const satisfies PluginEndpoints
