/**
 * Where the rows of marks stand. They are `contract/endpoints/marks.ts`, which the client and the page know, too.
 */
import { FILE_FROM_MARKS, MARKS_OF_ANSWERS } from '#contract/endpoints/marks.js'
import type { PluginEndpoints } from '#service/plugin.js'

export const markEndpoints = {
  runs: [
    {
      after: 'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/scores',
      rows: MARKS_OF_ANSWERS,
    },
    { after: 'POST /v1/files', rows: FILE_FROM_MARKS },
  ],
} as const satisfies PluginEndpoints
