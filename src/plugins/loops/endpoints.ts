/**
 * Endpoints of loops.
 */
import { small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  createLoopRequestSchema,
  listLoopEventsQuerySchema,
  listLoopsQuerySchema,
  loopAnswersSchema,
  loopEventListSchema,
  loopListSchema,
  loopMetricsQuerySchema,
  loopMetricsSchema,
  loopSchema,
} from './wire.js'

const SECTION = 'Loops of the server'
const ours = {
  tag: SECTION,
  origin: 'ours',
  parameters: {
    loop_id: 'Id of a loop, a UUID',
    model_id: 'Only loops of this model',
    type: 'Only events of this type',
  },
} as const

const rows = endpoints({
  'POST /v1/preview/loops': {
    ...ours,
    summary: 'Train by a grader, step by step',
    scope: 'write',
    body: small(createLoopRequestSchema),
    answer: loopSchema,
  },
  'GET /v1/preview/loops': {
    ...ours,
    summary: 'List loops, newest first',
    scope: 'read',
    query: listLoopsQuerySchema,
    answer: loopListSchema,
  },
  'GET /v1/preview/loops/{loop_id}': { ...ours, summary: 'Get a loop', scope: 'read', answer: loopSchema },
  'GET /v1/preview/loops/{loop_id}/events': {
    ...ours,
    summary: 'List what happened in a loop, oldest first',
    scope: 'read',
    query: listLoopEventsQuerySchema,
    answer: loopEventListSchema,
  },
  'GET /v1/preview/loops/{loop_id}/metrics': {
    ...ours,
    summary: 'Get the numbers of a loop by step',
    scope: 'read',
    query: loopMetricsQuerySchema,
    answer: loopMetricsSchema,
  },
  'GET /v1/preview/loops/{loop_id}/answers': {
    ...ours,
    summary: 'Get the best and the worst answers of the newest evaluation',
    scope: 'read',
    answer: loopAnswersSchema,
  },
  'POST /v1/preview/loops/{loop_id}/pause': {
    ...ours,
    summary: 'Pause a loop at the next border of phases',
    scope: 'write',
    answer: loopSchema,
  },
  'POST /v1/preview/loops/{loop_id}/resume': {
    ...ours,
    summary: 'Let a paused loop go on',
    scope: 'write',
    answer: loopSchema,
  },
  'POST /v1/preview/loops/{loop_id}/cancel': {
    ...ours,
    summary: 'End a loop and the job of its step; the model keeps its step',
    scope: 'write',
    answer: loopSchema,
  },
})

export const loopEndpoints = {
  runs: [
    {
      after: 'GET /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/scores',
      rows,
    },
  ],
  sections: [{ name: SECTION, after: 'Training' }],
} as const satisfies PluginEndpoints
