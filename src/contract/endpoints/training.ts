/**
 * Endpoints of training jobs.
 */
import { pageQuerySchema } from '../wire/list.js'
import { trainingOptionsQuerySchema, trainingOptionsSchema } from '../wire/training/option-list.js'
import { createJobQuerySchema, jobOrPlanSchema } from '../wire/training/plan.js'
import {
  listTrainingSessionsQuerySchema,
  trainingSessionListSchema,
  trainingSessionSchema,
} from '../wire/training/training-sessions.js'
import {
  createDpoJobRequestSchema,
  createRlJobRequestSchema,
  createSftJobRequestSchema,
  listTrainingJobsQuerySchema,
  trainingEventListSchema,
  trainingEventSchema,
  trainingJobListSchema,
  trainingJobSchema,
} from '../wire/training-jobs.js'
import { groups, small } from './bodies.js'
import { endpoints } from './endpoint.js'

const tag = 'Training'

export const TRAINING = endpoints({
  'POST /v1/preview/training-jobs': {
    tag,
    summary: 'Train by reinforcement learning, or plan it',
    origin: 'hosted',
    scope: 'write',
    query: createJobQuerySchema,
    body: groups(createRlJobRequestSchema),
    answer: jobOrPlanSchema,
  },
  'POST /v1/preview/sft-training-jobs': {
    tag,
    summary: 'Train on example conversations, or plan it',
    origin: 'hosted',
    scope: 'write',
    query: createJobQuerySchema,
    body: small(createSftJobRequestSchema),
    answer: jobOrPlanSchema,
  },
  'POST /v1/preview/dpo-training-jobs': {
    tag,
    summary: 'Train on preferred and rejected answers, or plan it',
    origin: 'ours',
    scope: 'write',
    query: createJobQuerySchema,
    body: small(createDpoJobRequestSchema),
    answer: jobOrPlanSchema,
  },
  'GET /v1/preview/training-options': {
    tag,
    summary: 'List the options of jobs with their defaults, and what suits a base model',
    origin: 'ours',
    scope: 'read',
    query: trainingOptionsQuerySchema,
    answer: trainingOptionsSchema,
    parameters: { base_model: 'Suggest what was measured for the size of this base model' },
  },
  'GET /v1/preview/training-jobs': {
    tag,
    summary: 'List training jobs, newest first',
    origin: 'ours',
    scope: 'read',
    query: listTrainingJobsQuerySchema,
    answer: trainingJobListSchema,
  },
  'GET /v1/preview/training-sessions': {
    tag,
    summary: 'List training sessions: loops of clients, newest first',
    origin: 'ours',
    scope: 'read',
    query: listTrainingSessionsQuerySchema,
    answer: trainingSessionListSchema,
  },
  'GET /v1/preview/training-sessions/{training_run_id}': {
    tag,
    summary: 'Get a training session',
    origin: 'ours',
    scope: 'read',
    answer: trainingSessionSchema,
  },
  'POST /v1/preview/training-sessions/{training_run_id}/end': {
    tag,
    summary: 'End a training session; what it saved stays',
    origin: 'ours',
    scope: 'write',
    answer: trainingSessionSchema,
  },
  'GET /v1/preview/training-jobs/{training_job_id}': {
    tag,
    summary: 'Get a training job',
    origin: 'hosted',
    scope: 'read',
    answer: trainingJobSchema,
  },
  'POST /v1/preview/training-jobs/{training_job_id}/cancel': {
    tag,
    summary: 'Ask a training job to stop',
    origin: 'ours',
    scope: 'write',
    answer: trainingJobSchema,
  },
  'POST /v1/preview/training-jobs/{training_job_id}/stop': {
    tag,
    summary: 'End a running job after its gradient step, with a checkpoint',
    origin: 'ours',
    scope: 'write',
    answer: trainingJobSchema,
  },
  'GET /v1/preview/training-jobs/{training_job_id}/events': {
    tag,
    summary: 'Read events, oldest first, or follow them with Accept: text/event-stream',
    origin: 'hosted',
    scope: 'read',
    query: pageQuerySchema,
    answer: trainingEventListSchema,
    stream: trainingEventSchema,
  },
})
