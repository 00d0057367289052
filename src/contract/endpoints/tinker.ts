/**
 * Endpoints of the Tinker client: training loops of one's own, request by request.
 */
import { z } from 'zod'
import {
  capabilitiesSchema,
  clientSessionListSchema,
  clientSessionSchema,
  clientSessionViewSchema,
  createClientSessionSchema,
  createdSamplerSchema,
  createSamplerSchema,
  createTrainingSessionSchema,
  finishSessionSchema,
  futureResultSchema,
  heartbeatAnswerSchema,
  heartbeatSchema,
  loadWeightsSchema,
  modelInfoRequestSchema,
  modelInfoSchema,
  offsetPageQuerySchema,
  optimStepSchema,
  retrieveFutureSchema,
  sampleRequestSchema,
  samplerSchema,
  savedWeightsListSchema,
  saveExternalSchema,
  saveForSamplerSchema,
  saveWeightsSchema,
  setTtlSchema,
  tinkerAcceptedSchema,
  tinkerConfigSchema,
  tinkerEmptySchema,
  tinkerFutureSchema,
  tinkerHealthSchema,
  tinkerTelemetrySchema,
  trainingRunListSchema,
  trainingRunSchema,
  weightAddressesSchema,
  weightsInfoRequestSchema,
  weightsInfoSchema,
} from '../wire/compatible/tinker.js'
import { numbered, small, tokenIds } from './bodies.js'
import { endpoints } from './endpoint.js'

const read = { tag: 'Tinker client', origin: 'Tinker', scope: 'read' } as const
const write = { ...read, scope: 'write' } as const
const done = z.object({})
const SESSION_ID = 'Id of a session of a client, as its creation answers it'

export const TINKER = endpoints({
  'POST /api/v1/client/config': {
    ...read,
    summary: 'Tell the client that no switch of it is on',
    body: small(tinkerEmptySchema),
    answer: tinkerConfigSchema,
  },
  'POST /api/v1/client/dynamic_config': {
    ...read,
    summary: 'The same, for switches that change while it runs',
    body: small(tinkerEmptySchema),
    answer: tinkerConfigSchema,
  },
  'GET /api/v1/healthz': { ...read, summary: 'Say that the server is there', answer: tinkerHealthSchema },
  'POST /api/v1/telemetry': {
    ...read,
    summary: 'Take what the client tells about itself, and drop it',
    body: small(tinkerTelemetrySchema),
    answer: tinkerAcceptedSchema,
  },
  'GET /api/v1/get_server_capabilities': {
    ...read,
    summary: 'List the base models that can be trained and sampled from',
    answer: capabilitiesSchema,
  },
  'POST /api/v1/create_session': {
    ...write,
    summary: 'Open a session of the client',
    body: small(createClientSessionSchema),
    answer: clientSessionSchema,
  },
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
    parameters: { session_id: SESSION_ID },
    answer: clientSessionViewSchema,
  },
  'POST /api/v1/sessions/{session_id}/finish': {
    ...write,
    summary: 'End a session of the client; its runs give their workers back',
    parameters: { session_id: SESSION_ID },
    body: small(finishSessionSchema),
    answer: done,
  },
  'POST /api/v1/create_model': {
    ...write,
    summary: 'Begin a training run with a new adapter',
    body: small(createTrainingSessionSchema),
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/get_info': {
    ...read,
    summary: 'Get what a training run trains',
    body: small(modelInfoRequestSchema),
    answer: modelInfoSchema,
  },
  'POST /api/v1/forward_backward': {
    ...write,
    summary: 'Compute a loss of rows and add up its gradients',
    body: 'application/x-protobuf',
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/optim_step': {
    ...write,
    summary: 'Apply the gradients with AdamW',
    body: numbered(optimStepSchema),
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/save_weights': {
    ...write,
    summary: 'Save the adapter with the state of its optimizer',
    body: numbered(saveWeightsSchema),
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/save_weights_for_sampler': {
    ...write,
    summary: 'Save the adapter to sample from',
    body: numbered(saveForSamplerSchema),
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/save_weights_external': {
    ...write,
    summary: 'Save the adapter to fetch it, in the layout of PEFT',
    body: numbered(saveExternalSchema),
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/load_weights': {
    ...write,
    summary: 'Load saved weights into a training run, or begin one with them',
    body: numbered(loadWeightsSchema),
    answer: tinkerFutureSchema,
  },
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
  'POST /api/v1/asample': {
    ...read,
    summary: 'Sample answers to a prompt of tokens, or score it',
    body: tokenIds(sampleRequestSchema),
    answer: tinkerFutureSchema,
  },
  'POST /api/v1/retrieve_future': {
    ...read,
    summary: 'Wait for a result',
    body: small(retrieveFutureSchema),
    answer: futureResultSchema,
    refusals: [404, 408, 410],
  },
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
