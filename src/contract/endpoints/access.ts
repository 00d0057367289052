/**
 * Endpoints of sessions of browsers, of downloads by a signed address, and of whose key it is.
 */
import {
  apiKeyListSchema,
  apiKeySchema,
  createdKeySchema,
  createKeyRequestSchema,
  deletedKeySchema,
  listKeysQuerySchema,
} from '../wire/access/keys.js'
import {
  createDownloadRequestSchema,
  createdSessionSchema,
  createSessionRequestSchema,
  deletedSessionSchema,
  downloadSchema,
  exchangeCodeRequestSchema,
  sessionCodeSchema,
  sessionListSchema,
} from '../wire/access/sessions.js'
import {
  keyUsageQuerySchema,
  keyUsageResponseSchema,
  usageQuerySchema,
  usageResponseSchema,
} from '../wire/access/usage.js'
import { whoamiResponseSchema } from '../wire/health.js'
import { pageQuerySchema } from '../wire/list.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Keys and usage', origin: 'ours' } as const

export const ACCESS = endpoints({
  'POST /v1/preview/sessions': {
    ...ours,
    summary: 'Begin a session of a browser with an API key',
    scope: 'read',
    body: small(createSessionRequestSchema),
    answer: createdSessionSchema,
    refusals: [403],
  },
  'GET /v1/preview/sessions': {
    ...ours,
    summary: 'List sessions of the key, with scope admin those of all keys',
    scope: 'read',
    query: pageQuerySchema,
    answer: sessionListSchema,
  },
  'DELETE /v1/preview/sessions/{session_id}': {
    ...ours,
    summary: 'End a session',
    scope: 'read',
    answer: deletedSessionSchema,
  },
  'POST /v1/preview/sessions/codes': {
    ...ours,
    summary: 'Make a code that begins one session, within ten minutes',
    scope: 'read',
    answer: sessionCodeSchema,
    refusals: [403, 409],
  },
  'POST /v1/preview/sessions/exchange': {
    ...ours,
    summary: 'Begin a session with a code',
    // the code is what proves it
    scope: 'open',
    body: small(exchangeCodeRequestSchema),
    answer: createdSessionSchema,
    refusals: [401, 429],
  },
  'POST /v1/preview/downloads': {
    ...ours,
    summary: 'Make an address that gives a file once, without a header, within a minute',
    scope: 'read',
    body: small(createDownloadRequestSchema),
    answer: downloadSchema,
  },
  'GET /v1/whoami': { ...ours, summary: 'Show whose key this is', scope: 'read', answer: whoamiResponseSchema },
})

/** Of a plugin. */
export const KEYS = endpoints({
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
  'GET /v1/preview/keys/usage': {
    ...ours,
    summary: 'Report what each API key asked for',
    scope: 'admin',
    query: keyUsageQuerySchema,
    answer: keyUsageResponseSchema,
  },
  'GET /v1/preview/keys/{key_id}': { ...ours, summary: 'Get an API key', scope: 'admin', answer: apiKeySchema },
  'DELETE /v1/preview/keys/{key_id}': {
    ...ours,
    summary: 'Revoke an API key',
    scope: 'admin',
    answer: deletedKeySchema,
  },
})

export const USAGE = endpoints({
  'GET /v1/usage': {
    ...ours,
    summary: 'Report usage by day, project and model',
    scope: 'read',
    query: usageQuerySchema,
    answer: usageResponseSchema,
  },
})
