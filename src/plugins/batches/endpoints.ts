/**
 * Endpoints of OpenAI's batches.
 */
import { small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import { pageQuerySchema } from '#contract/wire/list.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { batchListSchema, batchSchema, createBatchRequestSchema } from './wire.js'

const SECTION = 'Batches (OpenAI)'
const openAi = { tag: SECTION, origin: 'OpenAI' } as const
const parameters = { batch_id: 'Id of a batch' }

const rows = endpoints({
  'POST /v1/batches': {
    ...openAi,
    summary: 'Answer a file of requests, behind all other requests',
    scope: 'write',
    body: small(createBatchRequestSchema),
    answer: batchSchema,
  },
  'GET /v1/batches': {
    ...openAi,
    summary: 'List batches, newest first',
    scope: 'read',
    query: pageQuerySchema,
    answer: batchListSchema,
  },
  'GET /v1/batches/{batch_id}': { ...openAi, summary: 'Get a batch', scope: 'read', answer: batchSchema, parameters },
  'POST /v1/batches/{batch_id}/cancel': {
    ...openAi,
    summary: 'End a batch with what is answered',
    scope: 'write',
    answer: batchSchema,
    parameters,
  },
})

export const batchEndpoints = {
  runs: [{ after: 'DELETE /v1/files/{file_id}', rows }],
  sections: [{ name: SECTION, after: 'Files' }],
} as const satisfies PluginEndpoints
