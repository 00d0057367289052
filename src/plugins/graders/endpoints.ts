/**
 * Endpoints that try graders, as OpenAI's fine-tuning API has them.
 */
import type { JsonBody } from '#contract/endpoints/endpoint.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  runGraderRequestSchema,
  runGraderResponseSchema,
  validateGraderResponseSchema,
  validateGraderSchema,
} from './wire.js'

const SECTION = 'Graders (OpenAI)'
const openAi = { tag: SECTION, origin: 'OpenAI' } as const
/** Rows and answers are written into what is compared as they came. */
const READER: JsonBody['reader'] = {
  maxContainers: 20_000,
  maxValues: 200_000,
  maxKeys: 20_000,
  keptFields: ['item', 'model_sample'],
}

const rows = endpoints({
  'POST /v1/fine_tuning/alpha/graders/run': {
    ...openAi,
    summary: 'Grade an answer',
    scope: 'read',
    body: { schema: runGraderRequestSchema, size: 'chatBytes', reader: READER },
    answer: runGraderResponseSchema,
  },
  'POST /v1/fine_tuning/alpha/graders/validate': {
    ...openAi,
    summary: 'Check a grader without an answer',
    scope: 'read',
    body: { schema: validateGraderSchema, size: 'chatBytes', reader: READER },
    answer: validateGraderResponseSchema,
  },
})

export const graderEndpoints = {
  runs: [{ after: 'DELETE /v1/files/{file_id}', rows }],
  sections: [{ name: SECTION, after: 'Files' }],
} as const satisfies PluginEndpoints
