/**
 * Endpoints of rollouts: the trajectory groups a job trained on.
 */
import {
  deletedTrainingDataSchema,
  listRolloutGroupsQuerySchema,
  rolloutGroupDetailSchema,
  rolloutGroupListSchema,
  rolloutScoresQuerySchema,
  rolloutScoresSchema,
  rolloutTokensQuerySchema,
  rolloutTokensSchema,
  rolloutTrajectorySchema,
} from '../wire/training/rollouts.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Training', origin: 'ours' } as const
const tokenParameters = {
  from: 'First token; default 0',
  to: 'End of the tokens, not included, at most 8,192 behind `from`; default 4,096 behind it',
} as const

export const ROLLOUTS = endpoints({
  'GET /v1/preview/training-jobs/{training_job_id}/data': {
    ...ours,
    summary: 'Read the rows a job trained on, as they were sent',
    scope: 'read',
    answer: 'application/jsonl',
  },
  'DELETE /v1/preview/training-jobs/{training_job_id}/data': {
    ...ours,
    summary: 'Forget what a job trained on',
    scope: 'write',
    answer: deletedTrainingDataSchema,
  },
  'GET /v1/preview/training-jobs/{training_job_id}/groups': {
    ...ours,
    summary: 'List the trajectory groups a job trained on',
    scope: 'read',
    query: listRolloutGroupsQuerySchema,
    answer: rolloutGroupListSchema,
    parameters: { sort: 'Order of the groups, `-` begins with the highest; default `index`' },
  },
  'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}': {
    ...ours,
    summary: 'Get a trajectory group with its members',
    scope: 'read',
    answer: rolloutGroupDetailSchema,
  },
  'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}': {
    ...ours,
    summary: 'Get a trajectory turn by turn',
    scope: 'read',
    answer: rolloutTrajectorySchema,
  },
  'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/tokens': {
    ...ours,
    summary: 'Get its tokens with the numbers the trainer used',
    scope: 'read',
    query: rolloutTokensQuerySchema,
    answer: rolloutTokensSchema,
    parameters: tokenParameters,
  },
  'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/scores': {
    ...ours,
    summary: 'Score its tokens under a checkpoint of the model',
    scope: 'read',
    query: rolloutScoresQuerySchema,
    answer: rolloutScoresSchema,
    parameters: {
      ...tokenParameters,
      step: 'Step of the checkpoint that scores: a number, or `latest`; 0 is the base model. Default `latest`',
    },
  },
})
