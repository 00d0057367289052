/**
 * Endpoints of OpenAI's Responses API.
 */
import { z } from 'zod'
import { conversation } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import { orderedPageQuerySchema } from '#contract/wire/list.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  deletedResponseSchema,
  getResponseQuerySchema,
  inputItemListSchema,
  inputTokensSchema,
  responseRequestSchema,
  responseSchema,
} from './wire.js'

const openAi = { tag: 'Chat and text', origin: 'OpenAI', scope: 'read' } as const

/** Of a stored one. */
const id = { response_id: 'Id of a stored response' }

const RESPONSES = endpoints({
  'POST /v1/responses': {
    ...openAi,
    summary: 'Answer items with items',
    body: conversation(responseRequestSchema),
    answer: responseSchema,
    stream: z.looseObject({ type: z.string(), sequence_number: z.number().int() }),
    isAdmitted: true,
  },
  'POST /v1/responses/input_tokens': {
    ...openAi,
    summary: 'Count the tokens of a prompt',
    body: conversation(responseRequestSchema),
    answer: inputTokensSchema,
  },
  'GET /v1/responses/{response_id}': {
    ...openAi,
    summary: 'Get a stored response',
    query: getResponseQuerySchema,
    answer: responseSchema,
    parameters: { ...id, stream: 'Refused if true: a response streams while it is created' },
  },
  'DELETE /v1/responses/{response_id}': {
    ...openAi,
    summary: 'Forget a stored response',
    scope: 'write',
    answer: deletedResponseSchema,
    parameters: id,
  },
  'GET /v1/responses/{response_id}/input_items': {
    ...openAi,
    summary: 'List what a stored response was made from',
    query: orderedPageQuerySchema,
    answer: inputItemListSchema,
    parameters: { ...id, order: '`asc`: first said first, `desc`: last said first; default `desc`' },
  },
})

export const responseEndpoints = {
  runs: [{ after: 'POST /v1/completions', rows: RESPONSES }],
} as const satisfies PluginEndpoints
