/**
 * Endpoints of probes: prompts of a model that each new step answers.
 */
import {
  askProbeRequestSchema,
  createProbeRequestSchema,
  deletedProbeSchema,
  listProbeAnswersQuerySchema,
  listProbesQuerySchema,
  probeAnswerListSchema,
  probeListSchema,
  probeSchema,
} from '../wire/inference/probes.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Models', origin: 'ours' } as const

export const PROBES = endpoints({
  'POST /v1/preview/models/{model_id}/probes': {
    ...ours,
    summary: 'Watch a prompt: the base model, the newest step and every later one answer it',
    scope: 'write',
    body: small(createProbeRequestSchema),
    answer: probeSchema,
  },
  'GET /v1/preview/models/{model_id}/probes': {
    ...ours,
    summary: 'List watched prompts with their answers at some steps',
    scope: 'read',
    query: listProbesQuerySchema,
    answer: probeListSchema,
    parameters: { steps: 'At most 4 steps whose answers are shown, separated by commas; default 0 and the newest' },
  },
  'DELETE /v1/preview/models/{model_id}/probes/{probe_id}': {
    ...ours,
    summary: 'Watch a prompt no longer, and forget its answers',
    scope: 'write',
    answer: deletedProbeSchema,
  },
  'GET /v1/preview/models/{model_id}/probes/{probe_id}/answers': {
    ...ours,
    summary: 'List the answers to a watched prompt by step',
    scope: 'read',
    query: listProbeAnswersQuerySchema,
    answer: probeAnswerListSchema,
    parameters: { order: '`asc`: lowest step first, `desc`: highest step first; default `asc`' },
  },
  'POST /v1/preview/models/{model_id}/probes/{probe_id}/answers': {
    ...ours,
    summary: 'Have a watched prompt answered at earlier steps, or once more where that failed',
    scope: 'write',
    body: small(askProbeRequestSchema),
    answer: probeAnswerListSchema,
  },
})
