/**
 * Endpoints of OpenAI's fine-tuning API.
 */
import { small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  createFineTuningJobRequestSchema,
  fineTuningCheckpointListSchema,
  fineTuningEventListSchema,
  fineTuningJobListSchema,
  fineTuningJobSchema,
  fineTuningPageQuerySchema,
} from './wire.js'

const SECTION = 'Fine-tuning (OpenAI)'
const openAi = {
  tag: SECTION,
  origin: 'OpenAI',
  parameters: { fine_tuning_job_id: 'Id of a fine-tuning job' },
} as const

const rows = endpoints({
  'POST /v1/fine_tuning/jobs': {
    ...openAi,
    summary: 'Fine-tune a model',
    scope: 'write',
    body: small(createFineTuningJobRequestSchema),
    answer: fineTuningJobSchema,
  },
  'GET /v1/fine_tuning/jobs': {
    ...openAi,
    summary: 'List fine-tuning jobs, newest first',
    scope: 'read',
    query: fineTuningPageQuerySchema,
    answer: fineTuningJobListSchema,
  },
  'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}': {
    ...openAi,
    summary: 'Get a fine-tuning job',
    scope: 'read',
    answer: fineTuningJobSchema,
  },
  'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel': {
    ...openAi,
    summary: 'Ask a fine-tuning job to stop',
    scope: 'write',
    answer: fineTuningJobSchema,
  },
  'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/pause': {
    ...openAi,
    summary: 'Pause a reinforcement job when its sampling, grading or training of now has ended',
    scope: 'write',
    answer: fineTuningJobSchema,
  },
  'POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/resume': {
    ...openAi,
    summary: 'Let a paused reinforcement job go on',
    scope: 'write',
    answer: fineTuningJobSchema,
  },
  'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/events': {
    ...openAi,
    summary: 'List events of a fine-tuning job, newest first',
    scope: 'read',
    query: fineTuningPageQuerySchema,
    answer: fineTuningEventListSchema,
  },
  'GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints': {
    ...openAi,
    summary: 'List the checkpoints of a fine-tuning job',
    scope: 'read',
    query: fineTuningPageQuerySchema,
    answer: fineTuningCheckpointListSchema,
  },
})

export const fineTuningEndpoints = {
  runs: [{ after: 'DELETE /v1/files/{file_id}', rows }],
  sections: [{ name: SECTION, after: 'Files' }],
} as const satisfies PluginEndpoints
