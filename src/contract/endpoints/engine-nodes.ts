/**
 * Endpoints of engine nodes (`contract/processes/engine-node.ts`): what a node asks with its key, which is no part of the API, and the list
 * of them, which is.
 */
import { engineAdapterFilesSchema, engineNodeLeaseSchema, engineNodeReportSchema } from '../processes/engine-node.js'
import { baseModelFilesSchema } from '../processes/worker.js'
import { engineNodeListSchema } from '../wire/engine-nodes.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

const node = { tag: null, origin: 'ours', scope: 'worker' } as const
const bytes = 'application/octet-stream'

export const ENGINE_NODE = endpoints({
  'POST /internal/engine/nodes': {
    ...node,
    summary: 'Say that the node lives, and how it is',
    body: small(engineNodeReportSchema),
    answer: engineNodeLeaseSchema,
  },
  'GET /internal/engine/base-models/{base_model}': {
    ...node,
    summary: 'List the files of a base model',
    answer: baseModelFilesSchema,
  },
  'GET /internal/engine/base-models/{base_model}/files/{+file}': {
    ...node,
    summary: 'Fetch one of them',
    answer: bytes,
  },
  'GET /internal/engine/adapters/{digest}': {
    ...node,
    summary: 'List the files of an adapter that it was asked to serve',
    answer: engineAdapterFilesSchema,
  },
  'GET /internal/engine/adapters/{digest}/{file}': { ...node, summary: 'Fetch one of them', answer: bytes },
})

export const ENGINE_NODE_LIST = endpoints({
  'GET /v1/preview/engine-nodes': {
    tag: 'Server',
    origin: 'ours',
    scope: 'read',
    summary: 'List the engine nodes that answer chats of this server',
    answer: engineNodeListSchema,
  },
})
