/**
 * The protocol between the server and the worker of a training session: HTTP with a per-attempt token, as for jobs (`worker.ts`).
 *
 *     GET  /internal/worker/sessions/{session_id}               → TrainingSessionSpec
 *     GET  /internal/worker/sessions/{session_id}/files/{file}  → a file of its state, or of an order to load, by its digest
 *     GET  /internal/worker/sessions/{session_id}/base-model…   → its files, as of a job
 *     POST /internal/worker/sessions/{session_id}/heartbeat     WorkerHeartbeat → HeartbeatReply
 *     PUT  /internal/worker/sessions/{session_id}/files/{file}  body: bytes, by their digest → {}
 *     POST /internal/worker/sessions/{session_id}/turn          → the next order; the body is the report of the last one
 *
 * A worker asks for one order after the other and is held until there is one. Orders and reports are frames: a line of JSON and the
 * bytes behind it. Each report carries the number of its order, so that one that is sent again changes nothing. An update that waits
 * behind its gradients may come in their order (`update`): one turn less a step. A worker that does not know it reports without it.
 */
import { z } from 'zod'
import { MAX_MESSAGE, numbersByName } from '../wire/maxima.js'
import { CHECKPOINT_FILES } from './worker.js'

/** Files that a save stores: those of a checkpoint, and with the state the gradients added up since the last update. */
export const SESSION_FILES = [...CHECKPOINT_FILES, 'gradients.safetensors'] as const

/** A stored file. */
export const sessionFileSchema = z.object({
  name: z.string().max(200),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  size_bytes: z.number().int(),
})
export type SessionFile = z.infer<typeof sessionFileSchema>

/** What a session is opened with. */
export const trainingSessionSpecSchema = z.object({
  id: z.string(),
  attempt: z.number().int(),
  base_model: z.object({ name: z.string() }),
  lora: z.object({ rank: z.number().int(), alpha: z.number(), seed: z.union([z.string(), z.number()]) }),
  trains_mlp: z.boolean(),
  trains_attention: z.boolean(),
  /** Most tokens of a row; null for the model's own. */
  max_context_length: z.number().int().nullable(),
  /** The last stored state; empty for a session that begins. */
  state: z.array(sessionFileSchema),
  lease_seconds: z.number(),
})
export type TrainingSessionSpec = z.infer<typeof trainingSessionSpecSchema>

export const stepSettingsSchema = z.object({
  learning_rate: z.number(),
  beta1: z.number(),
  beta2: z.number(),
  eps: z.number(),
  weight_decay: z.number(),
  grad_clip_norm: z.number(),
})
export type StepSettingsWire = z.infer<typeof stepSettingsSchema>

/** What a save stores: everything to go on with, adapter and moments, or the adapter alone. */
export const SAVED_PARTS = ['state', 'weights', 'adapter'] as const

export const sessionOrderSchema = z.discriminatedUnion('type', [
  /** The bytes are the client's `ForwardBackwardRequest`. With `update`, that of the request behind it, whether it fails or not. */
  z.object({ type: z.literal('forward_backward'), order: z.number().int(), update: stepSettingsSchema.optional() }),
  z.object({ type: z.literal('optim_step'), order: z.number().int(), settings: stepSettingsSchema }),
  /** Takes the place of adapter and moments; gradients are dropped. */
  z.object({ type: z.literal('load'), order: z.number().int(), files: z.array(sessionFileSchema) }),
  z.object({ type: z.literal('save'), order: z.number().int(), parts: z.enum(SAVED_PARTS) }),
  /** There is nothing to do for now. */
  z.object({ type: z.literal('wait') }),
  /** The session leaves this worker; nothing is reported. */
  z.object({ type: z.literal('close') }),
])
export type SessionOrder = z.infer<typeof sessionOrderSchema>

/** Figures of an update. */
const metricsSchema = numbersByName(1000)
/** What failed has changed nothing. */
const failureSchema = z.object({
  code: z.string().max(100),
  message: z.string().max(MAX_MESSAGE),
  is_user_error: z.boolean(),
})

export const sessionReportSchema = z.object({
  /** Null with the first request of an attempt and after a wait. */
  order: z.number().int().nullable(),
  metrics: metricsSchema.optional(),
  /** What a save has stored. */
  files: z
    .array(
      sessionFileSchema.extend({
        name: z
          .string()
          .max(200)
          .refine(isSessionFile, `must be one of ${SESSION_FILES.join(', ')}`),
      }),
    )
    .max(SESSION_FILES.length)
    .optional(),
  error: failureSchema.optional(),
  /** How the order's `update` went. */
  update: z.object({ metrics: metricsSchema.optional(), error: failureSchema.optional() }).optional(),
})
export type SessionReport = z.infer<typeof sessionReportSchema>
/** How one request went. */
export type RequestReport = Omit<SessionReport, 'order' | 'update'>

function isSessionFile(name: string): boolean {
  return SESSION_FILES.some((known) => known === name)
}
