/**
 * Endpoints of a training worker: one attempt at one job or training session each (`contract/processes/worker.ts`,
 * `training-session.ts`). No part of the API: both ends are of one version.
 */
import { z } from 'zod'
import { trainingSessionSpecSchema } from '../processes/training-session.js'
import {
  baseModelFilesSchema,
  heartbeatReplySchema,
  workerCompletionSchema,
  workerEventsSchema,
  workerFailureSchema,
  workerHeartbeatSchema,
  workerJobSchema,
} from '../processes/worker.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

const worker = { tag: null, origin: 'ours', scope: 'attempt' } as const
const done = z.object({})
const bytes = 'application/octet-stream'

export const WORKER = endpoints({
  'GET /internal/worker/jobs/{job_id}': { ...worker, summary: 'Get the job', answer: workerJobSchema },
  'GET /internal/worker/jobs/{job_id}/input': { ...worker, summary: 'Read its rows', answer: 'application/jsonl' },
  'GET /internal/worker/jobs/{job_id}/validation': {
    ...worker,
    summary: 'Read the rows it is measured on',
    answer: 'application/jsonl',
  },
  'GET /internal/worker/jobs/{job_id}/parent/{file}': {
    ...worker,
    summary: 'Fetch a file of the checkpoint it goes on from',
    answer: bytes,
  },
  'GET /internal/worker/jobs/{job_id}/reference/{file}': {
    ...worker,
    summary: 'Fetch a file of the checkpoint it is held close to',
    answer: bytes,
  },
  'GET /internal/worker/jobs/{job_id}/base-model': {
    ...worker,
    summary: 'List the files of its base model',
    answer: baseModelFilesSchema,
  },
  'GET /internal/worker/jobs/{job_id}/base-model/{+file}': {
    ...worker,
    summary: 'Fetch a file of its base model',
    answer: bytes,
  },
  'POST /internal/worker/jobs/{job_id}/heartbeat': {
    ...worker,
    summary: 'Extend the lease',
    body: small(workerHeartbeatSchema),
    answer: heartbeatReplySchema,
  },
  'POST /internal/worker/jobs/{job_id}/events': {
    ...worker,
    summary: 'Report events',
    body: small(workerEventsSchema),
    answer: done,
  },
  'PUT /internal/worker/jobs/{job_id}/files/{file}': {
    ...worker,
    summary: 'Store a file of the new checkpoint',
    body: bytes,
    answer: done,
  },
  'PUT /internal/worker/jobs/{job_id}/resume': {
    ...worker,
    summary: 'Store a point to go on from',
    body: bytes,
    answer: done,
  },
  'PUT /internal/worker/jobs/{job_id}/rollouts': {
    ...worker,
    summary: 'Store what was noted of every token it trained on',
    body: bytes,
    answer: done,
  },
  'GET /internal/worker/jobs/{job_id}/resume': { ...worker, summary: 'Fetch the last of them', answer: bytes },
  'POST /internal/worker/jobs/{job_id}/complete': {
    ...worker,
    summary: 'End the job with its checkpoint',
    body: small(workerCompletionSchema),
    answer: done,
  },
  'POST /internal/worker/jobs/{job_id}/fail': {
    ...worker,
    summary: 'End the job without one',
    body: small(workerFailureSchema),
    answer: done,
  },
  'GET /internal/worker/sessions/{session_id}': {
    ...worker,
    summary: 'Get the training session',
    answer: trainingSessionSpecSchema,
  },
  'GET /internal/worker/sessions/{session_id}/base-model': {
    ...worker,
    summary: 'List the files of its base model',
    answer: baseModelFilesSchema,
  },
  'GET /internal/worker/sessions/{session_id}/base-model/{+file}': {
    ...worker,
    summary: 'Fetch a file of its base model',
    answer: bytes,
  },
  'GET /internal/worker/sessions/{session_id}/files/{file}': {
    ...worker,
    summary: 'Fetch a stored file of the session',
    answer: bytes,
  },
  'PUT /internal/worker/sessions/{session_id}/files/{file}': {
    ...worker,
    summary: 'Store a file of the session',
    body: bytes,
    answer: done,
  },
  'POST /internal/worker/sessions/{session_id}/heartbeat': {
    ...worker,
    summary: 'Say that the session lives',
    body: small(workerHeartbeatSchema),
    answer: heartbeatReplySchema,
  },
  'POST /internal/worker/sessions/{session_id}/turn': {
    ...worker,
    summary: 'Report what was done, and take what is next',
    body: bytes,
    answer: bytes,
  },
})
