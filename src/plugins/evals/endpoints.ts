/**
 * Endpoints of OpenAI's evals.
 */
import { CONVERSATION, small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  createEvalRequestSchema,
  createRunRequestSchema,
  deletedEvalSchema,
  deletedRunSchema,
  evalListSchema,
  evalRunListSchema,
  evalRunSchema,
  evalSchema,
  listEvalsQuerySchema,
  listItemsQuerySchema,
  listRunsQuerySchema,
  outputItemListSchema,
  outputItemSchema,
  updateEvalRequestSchema,
} from './wire.js'

const SECTION = 'Evals (OpenAI)'
const openAi = {
  tag: SECTION,
  origin: 'OpenAI',
  parameters: {
    eval_id: 'Id of an eval',
    eval_run_id: 'Id of a run of an eval',
    output_item_id: 'Id of an output item',
    order_by: 'Only `created_at`',
  },
} as const
const runBody = { schema: createRunRequestSchema, size: 'chatBytes', reader: CONVERSATION } as const

const rows = endpoints({
  'POST /v1/evals': {
    ...openAi,
    summary: 'Say what answers are measured by',
    scope: 'write',
    body: small(createEvalRequestSchema),
    answer: evalSchema,
  },
  'GET /v1/evals': {
    ...openAi,
    summary: 'List evals',
    scope: 'read',
    query: listEvalsQuerySchema,
    answer: evalListSchema,
  },
  'GET /v1/evals/{eval_id}': { ...openAi, summary: 'Get an eval', scope: 'read', answer: evalSchema },
  'POST /v1/evals/{eval_id}': {
    ...openAi,
    summary: 'Rename an eval',
    scope: 'write',
    body: small(updateEvalRequestSchema),
    answer: evalSchema,
  },
  'DELETE /v1/evals/{eval_id}': {
    ...openAi,
    summary: 'Delete an eval and its runs',
    scope: 'write',
    answer: deletedEvalSchema,
  },
  'POST /v1/evals/{eval_id}/runs': {
    ...openAi,
    summary: 'Measure answers, given ones or those of a model',
    scope: 'write',
    body: runBody,
    answer: evalRunSchema,
  },
  'GET /v1/evals/{eval_id}/runs': {
    ...openAi,
    summary: 'List runs of an eval',
    scope: 'read',
    query: listRunsQuerySchema,
    answer: evalRunListSchema,
  },
  'GET /v1/evals/{eval_id}/runs/{eval_run_id}': {
    ...openAi,
    summary: 'Get a run',
    scope: 'read',
    answer: evalRunSchema,
  },
  'POST /v1/evals/{eval_id}/runs/{eval_run_id}': {
    ...openAi,
    summary: 'Cancel a run',
    scope: 'write',
    answer: evalRunSchema,
  },
  'DELETE /v1/evals/{eval_id}/runs/{eval_run_id}': {
    ...openAi,
    summary: 'Delete a run',
    scope: 'write',
    answer: deletedRunSchema,
  },
  'GET /v1/evals/{eval_id}/runs/{eval_run_id}/output_items': {
    ...openAi,
    summary: 'List answers of a run with what criteria said of them',
    scope: 'read',
    query: listItemsQuerySchema,
    answer: outputItemListSchema,
  },
  'GET /v1/evals/{eval_id}/runs/{eval_run_id}/output_items/{output_item_id}': {
    ...openAi,
    summary: 'Get an answer of a run',
    scope: 'read',
    answer: outputItemSchema,
  },
})

export const evalEndpoints = {
  runs: [{ after: 'DELETE /v1/files/{file_id}', rows }],
  sections: [{ name: SECTION, after: 'Files' }],
} as const satisfies PluginEndpoints
