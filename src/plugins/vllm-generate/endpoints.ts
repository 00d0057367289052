/**
 * The endpoint of tokens in, tokens out. It stands at the root, where clients ask for it: they leave `/v1` out of their base URL.
 */
import { prompts } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { generateErrors } from './errors.js'
import { generateChunkSchema, generateRequestSchema, generateResponseSchema } from './wire.js'

const GENERATE = endpoints({
  'POST /inference/v1/generate': {
    tag: 'Chat and text',
    summary: 'Continue token ids by token ids, with the log-probabilities they were drawn by',
    origin: 'vLLM',
    scope: 'read',
    body: prompts(generateRequestSchema),
    answer: generateResponseSchema,
    stream: generateChunkSchema,
    isAdmitted: true,
  },
})

export const generateEndpoints = {
  runs: [{ after: 'POST /v1/completions', rows: GENERATE }],
  errors: generateErrors,
} as const satisfies PluginEndpoints
