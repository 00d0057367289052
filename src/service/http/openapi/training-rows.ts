/**
 * Routes of models, checkpoints, logs and training jobs.
 */
import {
  checkpointFilesQuerySchema,
  checkpointFilesSchema,
  checkpointListSchema,
  deleteCheckpointsRequestSchema,
  deleteCheckpointsResponseSchema,
} from '#contract/wire/checkpoints.js'
import { modelRunListSchema, runLineListSchema } from '#contract/wire/compatible/wandb.js'
import { orderedPageQuerySchema, pageQuerySchema } from '#contract/wire/list.js'
import {
  addBaseModelRequestSchema,
  baseModelListSchema,
  baseModelSchema,
  baseModelsResponseSchema,
  createModelRequestSchema,
  deleteBaseModelResponseSchema,
  deleteModelResponseSchema,
  listModelsQuerySchema,
  modelListSchema,
  modelSchema,
} from '#contract/wire/models.js'
import { createJobQuerySchema, jobOrPlanSchema } from '#contract/wire/training/plan.js'
import {
  createDpoJobRequestSchema,
  createRlJobRequestSchema,
  createSftJobRequestSchema,
  listTrainingJobsQuerySchema,
  trainingEventListSchema,
  trainingEventSchema,
  trainingJobListSchema,
  trainingJobSchema,
} from '#contract/wire/training-jobs.js'
import {
  listTrajectoryLogsQuerySchema,
  logTrajectoriesRequestSchema,
  logTrajectoriesResponseSchema,
  trajectoryLogListSchema,
} from '#contract/wire/trajectories.js'
import type { Route } from './row.js'

const BASE_MODEL = '/v1/preview/base-models/{name}'
const MODEL = '/v1/preview/models/{model_id}'
const JOB = '/v1/preview/training-jobs/{training_job_id}'
const models = 'Models'
const training = 'Training'

export const TRAINING_ROUTES: readonly Route[] = [
  {
    method: 'get',
    path: '/v1/preview/base-models',
    tag: models,
    summary: 'List names that models are created from',
    answer: baseModelsResponseSchema,
    isOpen: true,
  },
  {
    method: 'post',
    path: '/v1/preview/base-models',
    tag: models,
    summary: 'Add a base model, from a hub or from the data directory',
    body: addBaseModelRequestSchema,
    answer: baseModelSchema,
    alsoWith: [202],
  },
  {
    method: 'get',
    path: '/v1/preview/base-models/details',
    tag: models,
    summary: 'List base models with what is known of them',
    answer: baseModelListSchema,
  },
  { method: 'get', path: BASE_MODEL, tag: models, summary: 'Get a base model', answer: baseModelSchema },
  {
    method: 'delete',
    path: BASE_MODEL,
    tag: models,
    summary: 'Remove a base model that was added',
    answer: deleteBaseModelResponseSchema,
  },
  {
    method: 'post',
    path: '/v1/preview/models',
    tag: models,
    summary: 'Create a model',
    body: createModelRequestSchema,
    answer: modelSchema,
  },
  {
    method: 'get',
    path: '/v1/preview/models',
    tag: models,
    summary: 'List models',
    query: listModelsQuerySchema,
    answer: modelListSchema,
  },
  { method: 'get', path: MODEL, tag: models, summary: 'Get a model', answer: modelSchema },
  {
    method: 'delete',
    path: MODEL,
    tag: models,
    summary: 'Delete a model with all its checkpoints',
    answer: deleteModelResponseSchema,
  },
  {
    method: 'get',
    path: `${MODEL}/checkpoints`,
    tag: models,
    summary: 'List checkpoints by step',
    query: orderedPageQuerySchema,
    answer: checkpointListSchema,
  },
  {
    method: 'delete',
    path: `${MODEL}/checkpoints`,
    tag: models,
    summary: 'Delete checkpoints by step',
    body: deleteCheckpointsRequestSchema,
    answer: deleteCheckpointsResponseSchema,
  },
  {
    method: 'get',
    path: `${MODEL}/checkpoints/{step}/files`,
    tag: models,
    summary: 'List the files of a checkpoint',
    query: checkpointFilesQuerySchema,
    answer: checkpointFilesSchema,
  },
  {
    method: 'get',
    path: `${MODEL}/checkpoints/{step}/files/{name}`,
    tag: models,
    summary: 'Download a file of a checkpoint',
    query: checkpointFilesQuerySchema,
    answer: 'application/octet-stream',
  },
  {
    method: 'get',
    path: `${MODEL}/runs`,
    tag: models,
    summary: 'List the runs the wandb client logged about the model',
    query: pageQuerySchema,
    answer: modelRunListSchema,
  },
  {
    method: 'get',
    path: `${MODEL}/runs/{run_id}/history`,
    tag: models,
    summary: 'Read what was logged to a run',
    query: pageQuerySchema,
    answer: runLineListSchema,
  },
  {
    method: 'post',
    path: `${MODEL}/log`,
    tag: models,
    summary: 'Store trajectory groups as an evaluation',
    body: logTrajectoriesRequestSchema,
    answer: logTrajectoriesResponseSchema,
  },
  {
    method: 'get',
    path: `${MODEL}/log`,
    tag: models,
    summary: 'List what was logged, newest first',
    query: listTrajectoryLogsQuerySchema,
    answer: trajectoryLogListSchema,
  },
  {
    method: 'get',
    path: `${MODEL}/log/{log_id}/groups`,
    tag: models,
    summary: 'Read the trajectory groups of a log, one a line',
    answer: 'application/jsonl',
  },
  {
    method: 'post',
    path: '/v1/preview/training-jobs',
    tag: training,
    summary: 'Train by reinforcement learning, or plan it',
    query: createJobQuerySchema,
    body: createRlJobRequestSchema,
    answer: jobOrPlanSchema,
  },
  {
    method: 'post',
    path: '/v1/preview/sft-training-jobs',
    tag: training,
    summary: 'Train on example conversations, or plan it',
    query: createJobQuerySchema,
    body: createSftJobRequestSchema,
    answer: jobOrPlanSchema,
  },
  {
    method: 'post',
    path: '/v1/preview/dpo-training-jobs',
    tag: training,
    summary: 'Train on preferred and rejected answers, or plan it',
    query: createJobQuerySchema,
    body: createDpoJobRequestSchema,
    answer: jobOrPlanSchema,
  },
  {
    method: 'get',
    path: '/v1/preview/training-jobs',
    tag: training,
    summary: 'List training jobs, newest first',
    query: listTrainingJobsQuerySchema,
    answer: trainingJobListSchema,
  },
  { method: 'get', path: JOB, tag: training, summary: 'Get a training job', answer: trainingJobSchema },
  {
    method: 'post',
    path: `${JOB}/cancel`,
    tag: training,
    summary: 'Ask a training job to stop',
    answer: trainingJobSchema,
  },
  {
    method: 'get',
    path: `${JOB}/events`,
    tag: training,
    summary: 'Read events, oldest first, or follow them with Accept: text/event-stream',
    query: pageQuerySchema,
    answer: trainingEventListSchema,
    stream: trainingEventSchema,
  },
]
