/**
 * Endpoints of API keys and of what was used.
 */
import {
  apiKeyListSchema,
  apiKeySchema,
  createdKeySchema,
  createKeyRequestSchema,
  deletedKeySchema,
  listKeysQuerySchema,
} from '../wire/access/keys.js'
import { usageQuerySchema, usageResponseSchema } from '../wire/access/usage.js'
import { whoamiResponseSchema } from '../wire/health.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Keys and usage', origin: 'ours' } as const

export const ACCESS = endpoints({
  'POST /v1/preview/keys': {
    ...ours,
    summary: 'Create an API key',
    scope: 'admin',
    body: small(createKeyRequestSchema),
    answer: createdKeySchema,
  },
  'GET /v1/preview/keys': {
    ...ours,
    summary: 'List API keys',
    scope: 'admin',
    query: listKeysQuerySchema,
    answer: apiKeyListSchema,
  },
  'GET /v1/preview/keys/{key_id}': { ...ours, summary: 'Get an API key', scope: 'admin', answer: apiKeySchema },
  'DELETE /v1/preview/keys/{key_id}': {
    ...ours,
    summary: 'Revoke an API key',
    scope: 'admin',
    answer: deletedKeySchema,
  },
  'GET /v1/usage': {
    ...ours,
    summary: 'Report usage by day, project and model',
    scope: 'read',
    query: usageQuerySchema,
    answer: usageResponseSchema,
  },
  'GET /v1/whoami': { ...ours, summary: 'Show whose key this is', scope: 'read', answer: whoamiResponseSchema },
})
