/**
 * Endpoints of W&B's client, and of what it logged about a model. The client sends its key as the password of HTTP Basic, and
 * bytes to addresses that were signed for it.
 */
import { z } from 'zod'
import { small } from '#contract/endpoints/bodies.js'
import { endpoints, type JsonBody } from '#contract/endpoints/endpoint.js'
import { pageQuerySchema } from '#contract/wire/list.js'
import { MAX_LINES } from '#contract/wire/maxima.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { ARTIFACT_MANIFEST } from './bodies.js'
import {
  fileStreamRequestSchema,
  graphqlRequestSchema,
  graphqlResponseSchema,
  modelRunListSchema,
  runLineListSchema,
} from './wire.js'

const SECTION = 'wandb client'
const wandb = { tag: SECTION, origin: 'W&B' } as const
/** The token proves the address, whoever sends it. */
const signed = {
  ...wandb,
  scope: 'open',
  query: z.object({ token: z.string() }),
  refusals: [404, 405],
  parameters: { token: 'Signature of the address, as the wandb client was given it' },
} as const
const ofModel = { tag: 'Models', origin: 'ours', scope: 'read', query: pageQuerySchema } as const

/** Lines of a run. */
const runLines = {
  schema: fileStreamRequestSchema,
  size: 'chatBytes',
  reader: { maxContainers: 10_000, maxValues: MAX_LINES },
} as const satisfies JsonBody

const MODEL_RUNS = endpoints({
  'GET /v1/preview/models/{model_id}/runs': {
    ...ofModel,
    summary: 'List the runs the wandb client logged about the model',
    answer: modelRunListSchema,
  },
  'GET /v1/preview/models/{model_id}/runs/{run_id}/history': {
    ...ofModel,
    summary: 'Read what was logged to a run',
    answer: runLineListSchema,
    parameters: { run_id: 'Id of a run, as the list of runs has it' },
  },
})

const CLIENT = endpoints({
  'POST /graphql': {
    ...wandb,
    summary: 'Answer the queries and mutations of the wandb client',
    // whether a document changes something is seen when it is read
    scope: 'read',
    takesPassword: true,
    body: small(graphqlRequestSchema),
    answer: graphqlResponseSchema,
  },
  'POST /files/{entity}/{project}/{run}/file_stream': {
    ...wandb,
    summary: 'Store lines of a run',
    scope: 'write',
    takesPassword: true,
    body: runLines,
    answer: z.object({ limits: z.object({}) }),
    parameters: {
      entity: 'Entity of the run: the one of the key',
      project: 'Project of the run',
      run: 'Name of the run: the id that `wandb.init` was given or made',
    },
  },
  'PUT /wandb/storage': {
    ...signed,
    summary: 'Store bytes at a signed address',
    body: 'application/octet-stream',
    answer: z.object({}),
  },
  'GET /wandb/storage': {
    ...signed,
    summary: 'Fetch bytes from a signed address',
    answer: 'application/octet-stream',
  },
})

export const wandbEndpoints = {
  runs: [
    { after: 'GET /v1/preview/models/{model_id}/checkpoints/{step}/files/{name}', rows: MODEL_RUNS },
    { after: 'GET /v1/whoami', rows: CLIENT },
  ],
  sections: [{ name: SECTION, after: 'Keys and usage' }],
  stored: [ARTIFACT_MANIFEST],
} as const satisfies PluginEndpoints
