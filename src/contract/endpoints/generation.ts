/**
 * Endpoints that answer with text or tokens, and the list of models that can be asked.
 */
import { z } from 'zod'
import { chatChunkSchema, chatRequestSchema, chatResponseSchema } from '../wire/chat-completions.js'
import {
  completionChunkSchema,
  completionRequestSchema,
  completionResponseSchema,
} from '../wire/inference/completions.js'
import {
  applyTemplateRequestSchema,
  detokenizeRequestSchema,
  promptResponseSchema,
  tokenizeRequestSchema,
  tokenizeResponseSchema,
  tokenizerInfoResponseSchema,
} from '../wire/inference/tokens.js'
import { servedListQuerySchema, servedModelListSchema, servedModelSchema } from '../wire/models.js'
import { chat, conversation, prompts, tokenIds } from './bodies.js'
import { endpoints } from './endpoint.js'

const tag = 'Chat and text'

export const GENERATION = endpoints({
  'POST /v1/chat/completions': {
    tag,
    summary: 'Answer a conversation',
    origin: 'OpenAI',
    scope: 'read',
    body: chat(chatRequestSchema),
    answer: chatResponseSchema,
    stream: chatChunkSchema,
    isAdmitted: true,
    aliases: { 'POST /invocations': 'The same as /v1/chat/completions, under the name that SageMaker calls' },
  },
  'POST /v1/completions': {
    tag,
    summary: 'Continue prompts of text or tokens',
    origin: 'OpenAI',
    scope: 'read',
    body: prompts(completionRequestSchema),
    answer: completionResponseSchema,
    stream: completionChunkSchema,
    isAdmitted: true,
  },
  'POST /tokenize': {
    tag,
    summary: 'Turn a text or a conversation into tokens',
    origin: 'vLLM',
    scope: 'read',
    body: conversation(tokenizeRequestSchema),
    answer: tokenizeResponseSchema,
  },
  'POST /detokenize': {
    tag,
    summary: 'Turn tokens into text',
    origin: 'vLLM',
    scope: 'read',
    body: tokenIds(detokenizeRequestSchema),
    answer: promptResponseSchema,
  },
  'POST /apply-template': {
    tag,
    summary: 'Show a conversation as the prompt the model gets',
    origin: 'llama.cpp',
    scope: 'read',
    body: conversation(applyTemplateRequestSchema),
    answer: promptResponseSchema,
  },
  'GET /tokenizer_info': {
    tag,
    summary: 'Describe the tokenizer of a model',
    origin: 'vLLM',
    scope: 'read',
    query: z.object({ model: z.string().optional() }),
    answer: tokenizerInfoResponseSchema,
    parameters: { model: 'Name as in a chat request; default the base model that is served first' },
  },
  'GET /v1/models': {
    tag,
    summary: 'List what `model` may be',
    origin: 'OpenAI',
    scope: 'read',
    query: servedListQuerySchema,
    answer: servedModelListSchema,
    parameters: {
      after: 'The `id` that the page begins behind',
      limit: 'Cards of a page, at most 1,000; default all of them',
    },
  },
  'GET /v1/models/{+id}': {
    tag,
    summary: 'Get one of them; the name may hold slashes',
    origin: 'OpenAI',
    scope: 'read',
    answer: servedModelSchema,
  },
})
