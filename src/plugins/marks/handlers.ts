/**
 * Marks on answers, and the training file made of them. Whether the caller may see the job or model is checked before
 * the body is read.
 */
import { idempotencyKey } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { createRolloutService } from '../job-data/rollouts.js'
import type { markEndpoints } from './endpoints.js'
import { createMarkService } from './marks.js'
import { createMarksFileService } from './marks-file.js'

export function markHandlers({ context, app: { services } }: PluginService): PluginHandlers<typeof markEndpoints> {
  const marks = createMarkService(context, { rollouts: createRolloutService(context) })
  const marksFile = createMarksFileService(context, services)
  return {
    'PUT /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/mark': async ({
      principal,
      params: { training_job_id: jobId, group, trajectory },
      body,
    }) => {
      await marks.checkJob(principal, jobId)
      return marks.put(principal, { jobId, group, trajectory }, await body())
    },
    'PUT /v1/preview/models/{model_id}/log/{log_id}/groups/{group}/trajectories/{trajectory}/mark': async ({
      principal,
      params: { model_id: modelId, log_id: logId, group, trajectory },
      body,
    }) => {
      await marks.checkModel(principal, modelId)
      return marks.putLogged(principal, { modelId, logId, group, trajectory }, await body())
    },
    'POST /v1/preview/models/{model_id}/marks': async ({ principal, params, body, c }) => {
      await marks.checkModel(principal, params.model_id)
      return marks.create(principal, params.model_id, await body(), idempotencyKey(c))
    },
    'GET /v1/preview/models/{model_id}/marks': ({ principal, params, query }) =>
      marks.list(principal, params.model_id, query()),
    'DELETE /v1/preview/models/{model_id}/marks/{mark_id}': ({ principal, params }) =>
      marks.delete(principal, params.model_id, params.mark_id),
    'POST /v1/files/from-marks': async ({ principal, body, c }) =>
      marksFile.create(principal, await body(), idempotencyKey(c)),
  }
}
