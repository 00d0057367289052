/**
 * Endpoints of the server itself: health, version, metrics, events. Most are open to anybody;
 * a row that needs a key says its scope.
 */
import { z } from 'zod'
import { activityListSchema, activityQuerySchema, activitySchema } from '../wire/activity.js'
import {
  healthResponseSchema,
  readyResponseSchema,
  storageReportSchema,
  systemCheckResponseSchema,
} from '../wire/health.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Server', origin: 'ours', scope: 'open' } as const

export const SERVER = endpoints({
  'GET /v1/health': {
    ...ours,
    summary: 'Say that the server lives',
    origin: 'hosted',
    answer: healthResponseSchema,
  },
  'GET /v1/ready': {
    ...ours,
    summary: 'Say that requests may be sent here: database and blobs answer, and the server does not end',
    answer: readyResponseSchema,
  },
  'GET /v1/system-check': {
    ...ours,
    summary: 'Check database, blobs, queue and engine',
    origin: 'hosted',
    answer: systemCheckResponseSchema,
    alsoWith: [503],
  },
  'GET /v1/preview/events': {
    ...ours,
    summary: 'Read what happened lately, or follow it with Accept: text/event-stream',
    scope: 'read',
    query: activityQuerySchema,
    answer: activityListSchema,
    stream: activitySchema,
    parameters: {
      after: 'Id of the last event that was seen, as the header Last-Event-ID; the answer begins behind it',
      model_id: 'Only what is about this model, or about none',
    },
  },
  'GET /health': {
    ...ours,
    summary: 'Say that server and engines live',
    origin: 'vLLM',
    answer: 'nothing',
    aliases: { 'GET /ping': 'The same', 'POST /ping': 'The same' },
  },
  'GET /metrics': {
    ...ours,
    summary: 'Report counts and times as Prometheus text',
    origin: 'vLLM',
    answer: 'text/plain',
  },
  'GET /version': {
    ...ours,
    summary: 'Tell the version',
    origin: 'vLLM',
    answer: z.object({ version: z.string() }),
  },
  'GET /': {
    ...ours,
    summary: 'Say what this is',
    answer: z.looseObject({ name: z.string(), version: z.string() }),
  },
})

/** Of plugins. */
export const VERIFY = endpoints({
  'POST /v1/preview/verify': {
    ...ours,
    summary: 'Read all blobs: which are missing, damaged or named by no row',
    scope: 'admin',
    answer: 'text/event-stream',
    stream: storageReportSchema,
  },
})

export const DOCS = endpoints({
  'GET /openapi.json': {
    ...ours,
    summary: 'This description',
    answer: z.looseObject({ openapi: z.string() }),
  },
  'GET /docs': { ...ours, summary: 'The documentation', answer: 'text/html' },
  'GET /docs/{page}': { ...ours, summary: 'A page of the documentation', answer: 'text/html' },
  'GET /docs/pictures/{file}': { ...ours, summary: 'A picture of the documentation', answer: 'image/*' },
})
