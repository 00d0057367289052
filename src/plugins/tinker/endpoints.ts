/**
 * Endpoints of the Tinker client: training loops of one's own, request by request. Rows that `trainyard/rl` asks, too, are
 * the core's.
 */
import { numbered, small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import { LOOP, LOOPS } from '#contract/endpoints/training-loops.js'
import { futureSchema } from '#contract/wire/training/training-loops.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { LOSS_REQUEST } from './bodies.js'
import {
  acceptedSchema,
  capabilitiesSchema,
  clientSessionListSchema,
  clientSessionViewSchema,
  configSchema,
  createdSamplerSchema,
  createSamplerSchema,
  emptySchema,
  healthSchema,
  heartbeatAnswerSchema,
  heartbeatSchema,
  modelInfoRequestSchema,
  modelInfoSchema,
  offsetPageQuerySchema,
  samplerSchema,
  savedWeightsListSchema,
  saveExternalSchema,
  setTtlSchema,
  telemetrySchema,
  trainingRunListSchema,
  trainingRunSchema,
  weightAddressesSchema,
  weightsInfoRequestSchema,
  weightsInfoSchema,
} from './wire.js'

const read = { ...LOOP, scope: 'read' } as const
const write = { ...LOOP, scope: 'write' } as const
const { parameters } = LOOPS['POST /api/v1/sessions/{session_id}/finish']

const ROWS = endpoints({
  'POST /api/v1/client/config': {
    ...read,
    summary: 'Tell the client that no switch of it is on',
    body: small(emptySchema),
    answer: configSchema,
  },
  'POST /api/v1/client/dynamic_config': {
    ...read,
    summary: 'The same, for switches that change while it runs',
    body: small(emptySchema),
    answer: configSchema,
  },
  'GET /api/v1/healthz': { ...read, summary: 'Say that the server is there', answer: healthSchema },
  'POST /api/v1/telemetry': {
    ...read,
    summary: 'Take what the client tells about itself, and drop it',
    body: small(telemetrySchema),
    answer: acceptedSchema,
  },
  'GET /api/v1/get_server_capabilities': {
    ...read,
    summary: 'List the base models that can be trained and sampled from',
    answer: capabilitiesSchema,
  },
  'POST /api/v1/create_session': LOOPS['POST /api/v1/create_session'],
  'POST /api/v1/session_heartbeat': {
    ...write,
    summary: 'Say that the client lives',
    body: small(heartbeatSchema),
    answer: heartbeatAnswerSchema,
  },
  'GET /api/v1/sessions': {
    ...read,
    summary: 'List sessions of clients',
    query: offsetPageQuerySchema,
    answer: clientSessionListSchema,
  },
  'GET /api/v1/sessions/{session_id}': {
    ...read,
    summary: 'Get what belongs to a session of a client',
    parameters,
    answer: clientSessionViewSchema,
  },
  'POST /api/v1/sessions/{session_id}/finish': LOOPS['POST /api/v1/sessions/{session_id}/finish'],
  'POST /api/v1/create_model': LOOPS['POST /api/v1/create_model'],
  'POST /api/v1/get_info': {
    ...read,
    summary: 'Get what a training run trains',
    body: small(modelInfoRequestSchema),
    answer: modelInfoSchema,
  },
  'POST /api/v1/forward_backward': LOOPS['POST /api/v1/forward_backward'],
  'POST /api/v1/optim_step': LOOPS['POST /api/v1/optim_step'],
  'POST /api/v1/save_weights': LOOPS['POST /api/v1/save_weights'],
  'POST /api/v1/save_weights_for_sampler': LOOPS['POST /api/v1/save_weights_for_sampler'],
  'POST /api/v1/save_weights_external': {
    ...write,
    summary: 'Save the adapter to fetch it, in the layout of PEFT',
    body: numbered(saveExternalSchema),
    answer: futureSchema,
  },
  'POST /api/v1/load_weights': LOOPS['POST /api/v1/load_weights'],
  'POST /api/v1/weights_info': {
    ...read,
    summary: 'Get what saved weights belong to',
    body: small(weightsInfoRequestSchema),
    answer: weightsInfoSchema,
  },
  'POST /api/v1/create_sampling_session': {
    ...write,
    summary: 'Open a base model or saved weights for sampling',
    body: small(createSamplerSchema),
    answer: createdSamplerSchema,
  },
  'GET /api/v1/samplers/{sampler_id}': { ...read, summary: 'Get what a sampler answers with', answer: samplerSchema },
  'POST /api/v1/asample': LOOPS['POST /api/v1/asample'],
  'POST /api/v1/retrieve_future': LOOPS['POST /api/v1/retrieve_future'],
  'GET /api/v1/training_runs': {
    ...read,
    summary: 'List training runs',
    query: offsetPageQuerySchema,
    answer: trainingRunListSchema,
  },
  'GET /api/v1/training_runs/{training_run_id}': {
    ...read,
    summary: 'Get a training run',
    answer: trainingRunSchema,
  },
  'GET /api/v1/training_runs/{training_run_id}/checkpoints': {
    ...read,
    summary: 'List what was saved of a training run',
    query: offsetPageQuerySchema,
    answer: savedWeightsListSchema,
  },
  'GET /api/v1/checkpoints': {
    ...read,
    summary: 'List what was saved of all training runs',
    query: offsetPageQuerySchema,
    answer: savedWeightsListSchema,
  },
  'GET /api/v1/training_runs/{training_run_id}/checkpoints/external_weights/{weights_name}/external_weights_urls': {
    ...read,
    summary: 'Get addresses of the files, each for one download without a key within a minute',
    answer: weightAddressesSchema,
  },
  'GET /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}/files/{name}': {
    ...read,
    summary: 'Download a file of what was saved',
    answer: 'application/octet-stream',
    parameters: {
      name: 'Name of the file: `adapter_config.json`, `adapter_model.safetensors`, `optimizer.safetensors`',
    },
  },
  'DELETE /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}': {
    ...write,
    summary: 'Delete what was saved',
    answer: 'nothing',
  },
  'PUT /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}/ttl': {
    ...write,
    summary: 'Say how long it stays',
    body: small(setTtlSchema),
    answer: 'nothing',
  },
})

export const tinkerEndpoints = {
  runs: [{ after: 'GET /v1/whoami', rows: ROWS }],
  sections: [{ name: LOOP.tag, after: 'Keys and usage' }],
  binary: [LOSS_REQUEST],
} as const satisfies PluginEndpoints
