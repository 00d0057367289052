/**
 * The protocol between the server and a training worker: HTTP with a per-attempt token, the same on loopback and from
 * another machine.
 *
 *     GET  /internal/worker/jobs/{job_id}                      → WorkerJob
 *     GET  /internal/worker/jobs/{job_id}/input                → JSON Lines: trajectory groups (RL) or SFT rows
 *     GET  /internal/worker/jobs/{job_id}/validation           → JSON Lines: the rows a job is measured on
 *     GET  /internal/worker/jobs/{job_id}/parent/{file}        → a file of the parent checkpoint; header x-content-sha256
 *     GET  /internal/worker/jobs/{job_id}/reference/{file}     → a file of the checkpoint the KL penalty is measured to; the same header
 *     GET  /internal/worker/jobs/{job_id}/base-model           → BaseModelFiles: what a worker fetches that has no folder of it
 *     GET  /internal/worker/jobs/{job_id}/base-model/{file}    → one of them; header x-content-sha256
 *     POST /internal/worker/jobs/{job_id}/heartbeat            WorkerHeartbeat → HeartbeatReply; extends the lease
 *     POST /internal/worker/jobs/{job_id}/events               WorkerEvents → {}
 *     PUT  /internal/worker/jobs/{job_id}/files/{file}         body: bytes; header x-content-sha256 → {}
 *     PUT  /internal/worker/jobs/{job_id}/resume               body: bytes; headers x-content-sha256, x-trainyard-events → {}
 *     PUT  /internal/worker/jobs/{job_id}/rollouts             body: bytes (`rollouts.ts`); header x-content-sha256 → {}
 *     GET  /internal/worker/jobs/{job_id}/resume               → the last resume point, of this or an earlier attempt
 *     POST /internal/worker/jobs/{job_id}/complete             WorkerCompletion → {}
 *     POST /internal/worker/jobs/{job_id}/fail                 WorkerFailure → {}
 *
 * No message names a path: files are named by what they are and their digest, and only who starts a worker tells it folders of
 * its machine (`workerFoldersSchema`).
 *
 * Every request carries `Authorization: Bearer <attempt token>` and `x-trainyard-attempt: <n>`. A stale attempt gets 409
 * and must stop at once. All writes are idempotent for one attempt.
 */
import { z } from 'zod'
import { JOB_KINDS } from '../wire/job-words.js'
import { atMost, MAX_MESSAGE, METRICS_OF_CLIENTS, numbersByName } from '../wire/maxima.js'
import { jobReportSchema } from '../wire/training/job-report.js'
import { computingFactsSchema } from '../wire/training/worker-facts.js'

/** Files of a checkpoint, in the PEFT layout plus the optimizer's state. */
export const CHECKPOINT_FILES = ['adapter_config.json', 'adapter_model.safetensors', 'optimizer.safetensors'] as const
/** Largest of them that the server takes. */
export const MAX_CHECKPOINT_FILE_BYTES = 32 * 1024 ** 3
/** Largest notes of what a job trained on that the server takes; a worker notes no more tokens when it comes near. */
export const MAX_ROLLOUTS_BYTES = 512 * 1024 ** 2
export type CheckpointFile = (typeof CHECKPOINT_FILES)[number]
/** The same and the manifest, which the server writes when the job completes; checkpoints from before it have none. */
export const PARENT_FILES = [...CHECKPOINT_FILES, 'manifest.json'] as const
export type ParentFile = (typeof PARENT_FILES)[number]

export const workerJobSchema = z.object({
  id: z.string(),
  kind: z.enum(JOB_KINDS),
  attempt: z.number().int(),
  model_id: z.string(),
  model_name: z.string(),
  /** Step of the parent checkpoint; the job makes step + 1. */
  parent_step: z.number().int(),
  /** Which kind of job made the parent: optimizer state is dropped when kinds alternate. */
  parent_kind: z.enum(JOB_KINDS).nullable(),
  parent_files: z.array(z.enum(PARENT_FILES)),
  /** SHA-256 of each: a worker that made them need not fetch them again. */
  parent_digests: z.partialRecord(z.enum(PARENT_FILES), z.string()).default({}),
  /** Files of the KL reference; none when it is the base model. */
  reference_files: z.array(z.enum(PARENT_FILES)),
  /** Jobs on examples that came before: to show some is no advice then. */
  times_shown: z.number().int().default(0),
  /** Whether there are rows to measure on. */
  has_validation: z.boolean().default(false),
  base_model: z.object({ name: z.string() }),
  /** Tokens that the base model cannot tell from others: what holds them is not learned. */
  lost_tokens: z.array(z.object({ id: z.number().int(), text: z.string() })).default([]),
  /** Every option of the job's kind, resolved when the job was created (`contract/jobs/resolve.ts`). */
  config: z.record(z.string(), z.json()),
  /** Plugins whose options the job has set (`contract/jobs/plugin-options.ts`): a worker that has not loaded them refuses it. */
  plugins: z.array(z.string()).default([]),
  /** Chat template variables of the chats that are learned: the job's own, else those of the parent. */
  template_kwargs: z.record(z.string(), z.json()).default({}),
  /** Whether what the trainer computes of every token shall be noted, because what the job trains on is kept. */
  keeps_rollouts: z.boolean().default(false),
  lease_seconds: z.number(),
  /** Least time between two resume points. */
  resume_seconds: z.number(),
  /** Where the attempt goes on: digest of the point, and how many events were posted before it. Null: from the beginning. */
  resume: z.object({ sha256: z.string(), events: z.number().int() }).nullable(),
})
export type WorkerJob = z.infer<typeof workerJobSchema>

/** Name of a base model's file: plain, or one of the two that lie in a folder of templates. */
const baseModelFileName = z.string().regex(/^(?:additional_chat_templates\/)?[\w-][\w.-]{0,200}$/)

export const baseModelFilesSchema = z.object({
  /** SHA-256 over names and digests of the files: two folders with the same digest are the same base model. */
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  /** A folder with these files, or one GGUF file. */
  layout: z.enum(['folder', 'file']),
  files: z
    .array(
      z.object({ name: baseModelFileName, sha256: z.string().regex(/^[0-9a-f]{64}$/), size_bytes: z.number().int() }),
    )
    .min(1)
    .max(10_000),
})
export type BaseModelFiles = z.infer<typeof baseModelFilesSchema>

export const workerHeartbeatSchema = z.object({
  /** Counts what the attempt has done, a graph run or a request: a heartbeat alone only says that the process lives. */
  progress: z.number().int().nonnegative().optional(),
})
export type WorkerHeartbeat = z.infer<typeof workerHeartbeatSchema>

export const heartbeatReplySchema = z.object({
  is_cancel_requested: z.boolean(),
  /** End after the gradient step that runs, with a checkpoint. Servers of older versions do not ask. */
  is_stop_requested: z.boolean().default(false),
})
export type HeartbeatReply = z.infer<typeof heartbeatReplySchema>

/** Events of one post: a worker posts every few seconds. */
const MAX_EVENTS = 10_000
/** Numbers of an event or a checkpoint: those that a job may bring, with room for the worker's own and for what stands before a name. */
const METRICS = numbersByName(METRICS_OF_CLIENTS.names + 500, METRICS_OF_CLIENTS.nameLength + 64)

export const workerEventsSchema = z.object({
  /** Position of the first event of this post among all events of this attempt, from 0: makes a retry harmless. */
  offset: z.number().int().nonnegative(),
  events: z.array(z.object({ type: z.enum(['training_started', 'gradient_step']), data: METRICS })).max(MAX_EVENTS),
  /** The job's report as it stands after these events; replaces the one before. */
  report: jobReportSchema.optional(),
  /** With the first post of an attempt: what computes its gradients, which who claimed the job may not have known. */
  computing: computingFactsSchema.optional(),
})
export type WorkerEvents = z.infer<typeof workerEventsSchema>

export const workerCompletionSchema = z.object({
  /** Digest of each uploaded file; must equal what the server stored. */
  files: atMost(
    z.record(z.string(), z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size_bytes: z.number().int() })),
    16,
  ),
  /** Checkpoint metrics, names already prefixed (`loss/train`, `train/reward`). */
  metrics: METRICS,
  /** The final report. */
  report: jobReportSchema.optional(),
})
export type WorkerCompletion = z.infer<typeof workerCompletionSchema>

export const workerFailureSchema = z.object({
  code: z.string().max(100),
  message: z.string().max(MAX_MESSAGE),
  /** True after a cancel request was honoured. */
  is_cancelled: z.boolean().default(false),
})
export type WorkerFailure = z.infer<typeof workerFailureSchema>

/**
 * Folders of the machine a worker runs on, as whoever starts it there says them. These never travel between machines.
 */
export const workerFoldersSchema = z.object({
  /** The job's base model, a folder or a GGUF file; null where the worker fetches it into `fetched`. */
  base_model: z.string().nullable(),
  /** Where prepared weights are kept. */
  prepared: z.string(),
  /** Where fetched base models are kept; null where none is fetched. */
  fetched: z.string().nullable(),
})
export type WorkerFolders = z.infer<typeof workerFoldersSchema>

/**
 * What a worker says that was started to show that it can run. `trainer`: a sentence on PyTorch, null where ONNX Runtime trains.
 * `computing`: what jobs that begin here are computed with.
 */
export const workerProbeSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ready'), trainer: z.string().max(1000).nullable(), computing: computingFactsSchema }),
  z.object({ type: z.literal('failed'), message: z.string().max(MAX_MESSAGE) }),
])
export type WorkerProbe = z.infer<typeof workerProbeSchema>

/** What a worker that the server keeps says over its IPC channel when its attempt is over and it could make another. */
export const workerIdleSchema = z.object({ type: z.literal('idle'), resident_bytes: z.number().nonnegative() })
export type WorkerIdle = z.infer<typeof workerIdleSchema>

/** The answer of who started it, whenever a job comes: what a new process is told by its environment. */
export const workerAssignmentSchema = z.object({
  type: z.literal('attempt'),
  url: z.string(),
  token: z.string(),
  /** Of a job, or of a training session. */
  job_id: z.string(),
  attempt: z.number().int(),
  folders: workerFoldersSchema,
  is_session: z.boolean().default(false),
})
export type WorkerAssignment = z.infer<typeof workerAssignmentSchema>
