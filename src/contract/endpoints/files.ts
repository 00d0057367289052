/**
 * Endpoints of files, in OpenAI's format.
 */
import {
  deletedFileSchema,
  fileListSchema,
  fileObjectSchema,
  listFilesQuerySchema,
  uploadQuerySchema,
} from '../wire/files.js'
import { endpoints } from './endpoint.js'

const openAi = { tag: 'Files', origin: 'OpenAI' } as const

export const FILES = endpoints({
  'POST /v1/files': {
    ...openAi,
    summary: 'Upload a file',
    scope: 'write',
    query: uploadQuerySchema,
    body: 'upload',
    answer: fileObjectSchema,
    parameters: { purpose: 'What the file is for when its bytes are the whole body; default `fine-tune`' },
  },
  'GET /v1/files': {
    ...openAi,
    summary: 'List files, newest first',
    scope: 'read',
    query: listFilesQuerySchema,
    answer: fileListSchema,
    parameters: {
      limit: 'Most items of the page; default 10,000',
      order: '`asc`: oldest first, `desc`: newest first; default `desc`',
      purpose: 'Only files of this purpose',
    },
  },
  'GET /v1/files/{file_id}': { ...openAi, summary: 'Get a file', scope: 'read', answer: fileObjectSchema },
  'GET /v1/files/{file_id}/content': {
    ...openAi,
    summary: 'Download a file',
    scope: 'read',
    answer: 'application/octet-stream',
  },
  'DELETE /v1/files/{file_id}': { ...openAi, summary: 'Delete a file', scope: 'write', answer: deletedFileSchema },
})
