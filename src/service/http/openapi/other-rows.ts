/**
 * Routes of files, fine-tuning, keys, the wandb client and the server itself.
 */
import { z } from 'zod'
import {
  apiKeyListSchema,
  apiKeySchema,
  createdKeySchema,
  createKeyRequestSchema,
  deletedKeySchema,
  listKeysQuerySchema,
} from '#contract/wire/access/keys.js'
import { usageQuerySchema, usageResponseSchema } from '#contract/wire/access/usage.js'
import {
  createFineTuningJobRequestSchema,
  fineTuningCheckpointListSchema,
  fineTuningEventListSchema,
  fineTuningJobListSchema,
  fineTuningJobSchema,
  fineTuningPageQuerySchema,
} from '#contract/wire/compatible/fine-tuning.js'
import {
  fileStreamRequestSchema,
  graphqlRequestSchema,
  graphqlResponseSchema,
} from '#contract/wire/compatible/wandb.js'
import { deletedFileSchema, fileListSchema, fileObjectSchema, listFilesQuerySchema } from '#contract/wire/files.js'
import {
  healthResponseSchema,
  storageReportSchema,
  systemCheckResponseSchema,
  whoamiResponseSchema,
} from '#contract/wire/health.js'
import { uploadQuerySchema } from '../routes/files.js'
import type { Route } from './row.js'

const FILE = '/v1/files/{file_id}'
const TUNING = '/v1/fine_tuning/jobs'
const ONE_TUNING = `${TUNING}/{fine_tuning_job_id}`
const files = 'Files'
const tuning = 'Fine-tuning (OpenAI)'
const keys = 'Keys and usage'
const wandb = 'wandb client'
const server = 'Server'
const storageQuery = z.object({ token: z.string() })

export const OTHER_ROUTES: readonly Route[] = [
  {
    method: 'post',
    path: '/v1/files',
    tag: files,
    summary: 'Upload a file',
    query: uploadQuerySchema,
    body: 'upload',
    answer: fileObjectSchema,
  },
  {
    method: 'get',
    path: '/v1/files',
    tag: files,
    summary: 'List files, newest first',
    query: listFilesQuerySchema,
    answer: fileListSchema,
  },
  { method: 'get', path: FILE, tag: files, summary: 'Get a file', answer: fileObjectSchema },
  {
    method: 'get',
    path: `${FILE}/content`,
    tag: files,
    summary: 'Download a file',
    answer: 'application/octet-stream',
  },
  { method: 'delete', path: FILE, tag: files, summary: 'Delete a file', answer: deletedFileSchema },
  {
    method: 'post',
    path: TUNING,
    tag: tuning,
    summary: 'Fine-tune a model',
    body: createFineTuningJobRequestSchema,
    answer: fineTuningJobSchema,
  },
  {
    method: 'get',
    path: TUNING,
    tag: tuning,
    summary: 'List fine-tuning jobs, newest first',
    query: fineTuningPageQuerySchema,
    answer: fineTuningJobListSchema,
  },
  { method: 'get', path: ONE_TUNING, tag: tuning, summary: 'Get a fine-tuning job', answer: fineTuningJobSchema },
  {
    method: 'post',
    path: `${ONE_TUNING}/cancel`,
    tag: tuning,
    summary: 'Ask a fine-tuning job to stop',
    answer: fineTuningJobSchema,
  },
  {
    method: 'get',
    path: `${ONE_TUNING}/events`,
    tag: tuning,
    summary: 'List events of a fine-tuning job, newest first',
    query: fineTuningPageQuerySchema,
    answer: fineTuningEventListSchema,
  },
  {
    method: 'get',
    path: `${ONE_TUNING}/checkpoints`,
    tag: tuning,
    summary: 'List the checkpoints of a fine-tuning job',
    query: fineTuningPageQuerySchema,
    answer: fineTuningCheckpointListSchema,
  },
  {
    method: 'post',
    path: '/v1/preview/keys',
    tag: keys,
    summary: 'Create an API key',
    body: createKeyRequestSchema,
    answer: createdKeySchema,
  },
  {
    method: 'get',
    path: '/v1/preview/keys',
    tag: keys,
    summary: 'List API keys',
    query: listKeysQuerySchema,
    answer: apiKeyListSchema,
  },
  { method: 'get', path: '/v1/preview/keys/{key_id}', tag: keys, summary: 'Get an API key', answer: apiKeySchema },
  {
    method: 'delete',
    path: '/v1/preview/keys/{key_id}',
    tag: keys,
    summary: 'Revoke an API key',
    answer: deletedKeySchema,
  },
  {
    method: 'get',
    path: '/v1/usage',
    tag: keys,
    summary: 'Report usage by day, project and model',
    query: usageQuerySchema,
    answer: usageResponseSchema,
  },
  { method: 'get', path: '/v1/whoami', tag: keys, summary: 'Show whose key this is', answer: whoamiResponseSchema },
  {
    method: 'post',
    path: '/graphql',
    tag: wandb,
    summary: 'Answer the queries and mutations of the wandb client',
    body: graphqlRequestSchema,
    answer: graphqlResponseSchema,
  },
  {
    method: 'post',
    path: '/files/{entity}/{project}/{run}/file_stream',
    tag: wandb,
    summary: 'Store lines of a run',
    body: fileStreamRequestSchema,
    answer: z.object({ limits: z.object({}) }),
  },
  {
    method: 'put',
    path: '/wandb/storage',
    tag: wandb,
    summary: 'Store bytes at a signed address',
    query: storageQuery,
    body: 'application/octet-stream',
    answer: z.object({}),
    isOpen: true,
  },
  {
    method: 'get',
    path: '/wandb/storage',
    tag: wandb,
    summary: 'Fetch bytes from a signed address',
    query: storageQuery,
    answer: 'application/octet-stream',
    isOpen: true,
  },
  {
    method: 'get',
    path: '/v1/health',
    tag: server,
    summary: 'Say that the server lives',
    answer: healthResponseSchema,
    isOpen: true,
  },
  {
    method: 'get',
    path: '/v1/system-check',
    tag: server,
    summary: 'Check database, blobs, queue and engine',
    answer: systemCheckResponseSchema,
    isOpen: true,
    alsoWith: [503],
  },
  {
    method: 'post',
    path: '/v1/preview/verify',
    tag: server,
    summary: 'Read all blobs: which are missing, damaged or named by no row',
    answer: 'text/event-stream',
    stream: storageReportSchema,
  },
  {
    method: 'get',
    path: '/health',
    tag: server,
    summary: 'Say that server and engines live',
    answer: 'nothing',
    isOpen: true,
  },
  { method: 'get', path: '/ping', tag: server, summary: 'The same', answer: 'nothing', isOpen: true },
  { method: 'post', path: '/ping', tag: server, summary: 'The same', answer: 'nothing', isOpen: true },
  {
    method: 'get',
    path: '/metrics',
    tag: server,
    summary: 'Report counts and times as Prometheus text',
    answer: 'text/plain',
    isOpen: true,
  },
  {
    method: 'get',
    path: '/version',
    tag: server,
    summary: 'Tell the version',
    answer: z.object({ version: z.string() }),
    isOpen: true,
  },
  {
    method: 'get',
    path: '/',
    tag: server,
    summary: 'Say what this is',
    answer: z.looseObject({ name: z.string(), version: z.string() }),
    isOpen: true,
  },
  {
    method: 'get',
    path: '/openapi.json',
    tag: server,
    summary: 'This description',
    answer: z.looseObject({ openapi: z.string() }),
    isOpen: true,
  },
  { method: 'get', path: '/docs', tag: server, summary: 'The documentation', answer: 'text/html', isOpen: true },
  {
    method: 'get',
    path: '/docs/{page}',
    tag: server,
    summary: 'A page of the documentation',
    answer: 'text/html',
    isOpen: true,
  },
  {
    method: 'get',
    path: '/docs/pictures/{file}',
    tag: server,
    summary: 'A picture of the documentation',
    answer: 'image/svg+xml',
    isOpen: true,
  },
]
