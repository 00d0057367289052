/**
 * OpenAI's fine-tuning jobs.
 */
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'
import { createHeaders } from '../headers.js'

export function fineTuningHandlers({ services: { fineTuning } }: AppOptions) {
  return handlers({
    'POST /v1/fine_tuning/jobs': async ({ principal, body, c }) =>
      fineTuning.create(principal, await body(), createHeaders(c)),
    'GET /v1/fine_tuning/jobs': ({ principal, query }) => fineTuning.list(principal, query()),
    'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}': ({ principal, params }) =>
      fineTuning.get(principal, params.fine_tuning_job_id),
    'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel': ({ principal, params }) =>
      fineTuning.cancel(principal, params.fine_tuning_job_id),
    'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/events': ({ principal, params, query }) =>
      fineTuning.events(principal, params.fine_tuning_job_id, query()),
    'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints': ({ principal, params, query }) =>
      fineTuning.checkpoints(principal, params.fine_tuning_job_id, query()),
  })
}
