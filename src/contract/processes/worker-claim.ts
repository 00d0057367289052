/**
 * How a worker on another machine gets jobs. It asks with an API key of scope `worker`, and waits for the answer as long as it says:
 *
 *     POST /internal/worker/claims    WorkerClaimRequest → WorkerClaim
 *
 * What follows for the job is the protocol of `worker.ts`, with the token of the attempt and never with the key. One id makes one
 * attempt at a time: whoever asks again has left the job of before, which is queued again at once.
 */
import { z } from 'zod'
import { TRAINER_NAMES } from '../settings/service.js'
import { workerFactsSchema } from '../wire/training/worker-facts.js'

/** Longest wait of one request, seconds. */
const MAX_CLAIM_WAIT_SECONDS = 60

export const workerClaimRequestSchema = z.object({
  worker: workerFactsSchema.extend({
    /** Made anew at every start, one for each attempt that it can make at a time. */
    id: z.string().regex(/^[\w-]{8,64}$/),
    /** What can compute its gradients: a job that began with one goes on with the same. */
    trainers: z.array(z.enum(TRAINER_NAMES)).min(1).max(TRAINER_NAMES.length).default(['onnx']),
    /** Memory of the machine, or of the container it runs in; jobs whose base model alone is larger are not for it. Null: not known. */
    memory_bytes: z.number().positive().nullable().default(null),
  }),
  /** How long the answer may take when there is no job. Default 0. */
  wait_seconds: z.number().min(0).max(MAX_CLAIM_WAIT_SECONDS).default(0),
  /** What became of its attempt of before, if that had no end; one clause for the job's record. */
  left: z
    .object({
      reason: z.string().min(1).max(500),
      /** The worker was told to stop: does not count against the job. */
      is_orderly: z.boolean(),
    })
    .nullable()
    .default(null),
  /** It asks for nothing more: only what it left is queued again. */
  is_leaving: z.boolean().default(false),
})
export type WorkerClaimRequest = z.infer<typeof workerClaimRequestSchema>

export const workerClaimSchema = z.object({
  /** Null: nothing within the wait. */
  claim: z
    .object({
      /** Of a job, or of a training session. */
      job_id: z.string(),
      attempt: z.number().int(),
      /** What the attempt proves itself with. */
      token: z.string(),
      /** A process that trained this model before goes on without loading it again. */
      model_id: z.string(),
      is_session: z.boolean(),
    })
    .nullable(),
})
export type WorkerClaim = z.infer<typeof workerClaimSchema>
