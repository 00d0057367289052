/**
 * The endpoint of tokens in, tokens out. It stands at the root, where clients ask for it: they leave `/v1` out of their base URL.
 */
import { prompts } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { ErrorForm } from '#service/http/environment.js'
import { shownError, toStreamError } from '#service/http/middleware/errors.js'
import type { PluginEndpoints } from '#service/plugin.js'
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

/** Errors as vLLM answers them, with 400 for a field that is wrong: clients of this endpoint look for no other status. */
const generateErrors: ErrorForm = {
  paths: /^\/inference\/v1\//,
  requestIdHeader: 'x-request-id',
  toBody: (raw, requestId) => {
    const { hint, details, param } = shownError(raw).error
    const { error } = toStreamError(raw)
    const shown = {
      ...(typeof error === 'string' ? { message: error } : error),
      // whose prompt it is called by other endpoints
      ...(param === 'prompt' ? { param: 'token_ids' } : {}),
      ...(hint === undefined ? {} : { hint }),
      ...details,
    }
    return { error: shown, request_id: requestId }
  },
}

export const generateEndpoints = {
  runs: [{ after: 'POST /v1/completions', rows: GENERATE }],
  errors: generateErrors,
} as const satisfies PluginEndpoints
