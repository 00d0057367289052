/**
 * Endpoints of training loops that `trainyard/rl` asks: sessions of clients, requests of their runs, samples, and results.
 */
import { z } from 'zod'
import {
  clientSessionSchema,
  createClientSessionSchema,
  createTrainingSessionSchema,
  finishSessionSchema,
  futureResultSchema,
  futureSchema,
  loadWeightsSchema,
  optimStepSchema,
  retrieveFutureSchema,
  sampleRequestSchema,
  saveForSamplerSchema,
  saveWeightsSchema,
} from '../wire/training/training-loops.js'
import { numbered, small, tokenIds } from './bodies.js'
import { endpoints } from './endpoint.js'

/** Where they stand in the reference, and whose format they are. */
export const LOOP = { tag: 'Tinker client', origin: 'Tinker' } as const
const read = { ...LOOP, scope: 'read' } as const
const write = { ...LOOP, scope: 'write' } as const
const done = z.object({})
const SESSION_ID = 'Id of a session of a client, as its creation answers it'

export const LOOPS = endpoints({
  'POST /api/v1/create_session': {
    ...write,
    summary: 'Open a session of the client',
    body: small(createClientSessionSchema),
    answer: clientSessionSchema,
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
    answer: futureSchema,
  },
  'POST /api/v1/forward_backward': {
    ...write,
    summary: 'Compute a loss of rows and add up its gradients',
    body: 'application/x-protobuf',
    answer: futureSchema,
  },
  'POST /api/v1/optim_step': {
    ...write,
    summary: 'Apply the gradients with AdamW',
    body: numbered(optimStepSchema),
    answer: futureSchema,
  },
  'POST /api/v1/save_weights': {
    ...write,
    summary: 'Save the adapter with the state of its optimizer',
    body: numbered(saveWeightsSchema),
    answer: futureSchema,
  },
  'POST /api/v1/save_weights_for_sampler': {
    ...write,
    summary: 'Save the adapter to sample from',
    body: numbered(saveForSamplerSchema),
    answer: futureSchema,
  },
  'POST /api/v1/load_weights': {
    ...write,
    summary: 'Load saved weights into a training run, or begin one with them',
    body: numbered(loadWeightsSchema),
    answer: futureSchema,
  },
  'POST /api/v1/asample': {
    ...read,
    summary: 'Sample answers to a prompt of tokens, or score it',
    body: tokenIds(sampleRequestSchema),
    answer: futureSchema,
  },
  'POST /api/v1/retrieve_future': {
    ...read,
    summary: 'Wait for a result',
    body: small(retrieveFutureSchema),
    answer: futureResultSchema,
    refusals: [404, 408, 410],
  },
})
