/**
 * Endpoints of OpenAI's uploads.
 */

import { small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { completeUploadRequestSchema, createUploadRequestSchema, uploadPartSchema, uploadSchema } from './wire.js'

const openAi = { tag: 'Files', origin: 'OpenAI', scope: 'write' } as const
const parameters = { upload_id: 'Id of an upload' }

const rows = endpoints({
  'POST /v1/uploads': {
    ...openAi,
    summary: 'Begin a file that comes in parts',
    body: { ...small(createUploadRequestSchema), idle: ({ mime_type }) => (mime_type == null ? [] : ['mime_type']) },
    answer: uploadSchema,
  },
  'POST /v1/uploads/{upload_id}/parts': {
    ...openAi,
    summary: 'Send a part of a file',
    body: 'upload',
    answer: uploadPartSchema,
    parameters,
  },
  'POST /v1/uploads/{upload_id}/complete': {
    ...openAi,
    summary: 'Join the parts to a file',
    body: small(completeUploadRequestSchema),
    answer: uploadSchema,
    parameters,
  },
  'POST /v1/uploads/{upload_id}/cancel': {
    ...openAi,
    summary: 'Forget an upload and its parts',
    answer: uploadSchema,
    parameters,
  },
})

export const uploadEndpoints = {
  runs: [{ after: 'DELETE /v1/files/{file_id}', rows }],
} as const satisfies PluginEndpoints
