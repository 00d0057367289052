/**
 * OpenAI's fine-tuning jobs.
 */
import { createHeaders } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { CheckGrader } from '../loops/check-grader.js'
import { createLoopService } from '../loops/loops.js'
import type { fineTuningEndpoints } from './endpoints.js'
import { createFineTuningService } from './fine-tuning.js'

export function fineTuningHandlers({
  context,
  app: { services },
  started,
}: PluginService<{
  readonly checkGrader: CheckGrader
  readonly toolHosts: readonly string[]
}>): PluginHandlers<typeof fineTuningEndpoints> {
  const fineTuning = createFineTuningService(context, { ...services, ...started }, createLoopService(context))
  return {
    'POST /v1/fine_tuning/jobs': async ({ principal, body, c }) =>
      fineTuning.create(principal, await body(), createHeaders(c)),
    'GET /v1/fine_tuning/jobs': ({ principal, query }) => fineTuning.list(principal, query()),
    'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}': ({ principal, params }) =>
      fineTuning.get(principal, params.fine_tuning_job_id),
    'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel': ({ principal, params }) =>
      fineTuning.cancel(principal, params.fine_tuning_job_id),
    'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/pause': ({ principal, params }) =>
      fineTuning.pause(principal, params.fine_tuning_job_id),
    'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/resume': ({ principal, params }) =>
      fineTuning.resume(principal, params.fine_tuning_job_id),
    'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/events': ({ principal, params, query }) =>
      fineTuning.events(principal, params.fine_tuning_job_id, query()),
    'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints': ({ principal, params, query }) =>
      fineTuning.checkpoints(principal, params.fine_tuning_job_id, query()),
  }
}
