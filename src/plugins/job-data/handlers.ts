/**
 * What a job trained on: rows, groups, trajectories, tokens, and their scores under a checkpoint.
 */
import { sendFile } from '#service/http/file-answer.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { jobDataEndpoints } from './endpoints.js'
import { createRolloutService } from './rollouts.js'

interface Params {
  readonly training_job_id: string
  readonly group: string
  readonly trajectory: string
}

export function jobDataHandlers({ context }: PluginService): PluginHandlers<typeof jobDataEndpoints> {
  const rollouts = createRolloutService(context)
  const placeOf = ({ training_job_id: jobId, group, trajectory }: Params) => ({ jobId, group, trajectory })
  return {
    'GET /v1/preview/training-jobs/{training_job_id}/data': async ({ principal, params, c }) => {
      const { stream, sizeBytes } = await rollouts.openData(principal, params.training_job_id)
      return sendFile(c, stream, { 'content-type': 'application/jsonl', 'content-length': String(sizeBytes) })
    },
    'DELETE /v1/preview/training-jobs/{training_job_id}/data': ({ principal, params }) =>
      rollouts.deleteData(principal, params.training_job_id),
    'GET /v1/preview/training-jobs/{training_job_id}/groups': ({ principal, params, query }) =>
      rollouts.groups(principal, params.training_job_id, query()),
    'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}': ({ principal, params }) =>
      rollouts.group(principal, params.training_job_id, params.group),
    'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}': ({
      principal,
      params,
    }) => rollouts.trajectory(principal, placeOf(params)),
    'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/tokens': ({
      principal,
      params,
      query,
    }) => rollouts.tokens(principal, placeOf(params), query()),
    'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/scores': ({
      principal,
      params,
      query,
      c,
    }) => rollouts.scores(principal, placeOf(params), query(), c.req.raw.signal),
  }
}
