/**
 * Routes that answer with text or tokens, and what is served.
 */

import { z } from 'zod'
import { chatChunkSchema, chatRequestSchema, chatResponseSchema } from '#contract/wire/chat-completions.js'
import {
  completionChunkSchema,
  completionRequestSchema,
  completionResponseSchema,
} from '#contract/wire/inference/completions.js'
import {
  countMessageTokensRequestSchema,
  messageRequestSchema,
  messageSchema,
  messageTokensSchema,
} from '#contract/wire/inference/messages.js'
import {
  deletedResponseSchema,
  getResponseQuerySchema,
  inputItemListSchema,
  inputTokensSchema,
  responseRequestSchema,
  responseSchema,
} from '#contract/wire/inference/responses.js'
import {
  applyTemplateRequestSchema,
  detokenizeRequestSchema,
  promptResponseSchema,
  tokenizeRequestSchema,
  tokenizeResponseSchema,
  tokenizerInfoResponseSchema,
} from '#contract/wire/inference/tokens.js'
import { orderedPageQuerySchema } from '#contract/wire/list.js'
import { servedModelListSchema, servedModelSchema } from '#contract/wire/models.js'
import type { Route } from './row.js'

const tag = 'Chat and text'

export const INFERENCE_ROUTES: readonly Route[] = [
  {
    method: 'post',
    path: '/v1/chat/completions',
    tag,
    summary: 'Answer a conversation',
    body: chatRequestSchema,
    answer: chatResponseSchema,
    stream: chatChunkSchema,
  },
  {
    method: 'post',
    path: '/invocations',
    tag,
    summary: 'The same as /v1/chat/completions, under the name that SageMaker calls',
    body: chatRequestSchema,
    answer: chatResponseSchema,
    stream: chatChunkSchema,
  },
  {
    method: 'post',
    path: '/v1/completions',
    tag,
    summary: 'Continue prompts of text or tokens',
    body: completionRequestSchema,
    answer: completionResponseSchema,
    stream: completionChunkSchema,
  },
  {
    method: 'post',
    path: '/v1/responses',
    tag,
    summary: 'Answer items with items',
    body: responseRequestSchema,
    answer: responseSchema,
    stream: z.looseObject({ type: z.string(), sequence_number: z.number().int() }),
  },
  {
    method: 'post',
    path: '/v1/responses/input_tokens',
    tag,
    summary: 'Count the tokens of a prompt',
    body: responseRequestSchema,
    answer: inputTokensSchema,
  },
  {
    method: 'get',
    path: '/v1/responses/{response_id}',
    tag,
    summary: 'Get a stored response',
    query: getResponseQuerySchema,
    answer: responseSchema,
  },
  {
    method: 'delete',
    path: '/v1/responses/{response_id}',
    tag,
    summary: 'Forget a stored response',
    answer: deletedResponseSchema,
  },
  {
    method: 'get',
    path: '/v1/responses/{response_id}/input_items',
    tag,
    summary: 'List what a stored response was made from',
    query: orderedPageQuerySchema,
    answer: inputItemListSchema,
  },
  {
    method: 'post',
    path: '/v1/messages',
    tag,
    summary: "Answer a conversation in Anthropic's format",
    body: messageRequestSchema,
    answer: messageSchema,
    stream: z.looseObject({ type: z.string() }),
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    tag,
    summary: 'Count the tokens of its prompt',
    body: countMessageTokensRequestSchema,
    answer: messageTokensSchema,
  },
  {
    method: 'post',
    path: '/tokenize',
    tag,
    summary: 'Turn a text or a conversation into tokens',
    body: tokenizeRequestSchema,
    answer: tokenizeResponseSchema,
  },
  {
    method: 'post',
    path: '/detokenize',
    tag,
    summary: 'Turn tokens into text',
    body: detokenizeRequestSchema,
    answer: promptResponseSchema,
  },
  {
    method: 'post',
    path: '/apply-template',
    tag,
    summary: 'Show a conversation as the prompt the model gets',
    body: applyTemplateRequestSchema,
    answer: promptResponseSchema,
  },
  {
    method: 'get',
    path: '/tokenizer_info',
    tag,
    summary: 'Describe the tokenizer of a model',
    query: z.object({ model: z.string().optional() }),
    answer: tokenizerInfoResponseSchema,
  },
  { method: 'get', path: '/v1/models', tag, summary: 'List what `model` may be', answer: servedModelListSchema },
  {
    method: 'get',
    path: '/v1/models/{id}',
    tag,
    summary: 'Get one of them; the name may hold slashes',
    answer: servedModelSchema,
  },
]
