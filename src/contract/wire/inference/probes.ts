/**
 * Probes: prompts of a model that are watched. Each new step of the model answers them, greedily, so that what a job changed can be read. Ours.
 */
import { z } from 'zod'
import { laxInteger } from '../lax.js'
import { listSchema, orderedPageQuerySchema, pageQuerySchema } from '../list.js'
import { MAX_PROBE_MESSAGE, MAX_PROBE_TOKENS, PROBE_STATUSES } from './probe-words.js'

/** Most steps that one request asks to answer. */
export const MAX_ASKED_STEPS = 32
/** Most steps whose answers come with a list of probes. */
const MAX_SHOWN_STEPS = 4

const messageSchema = z.object({
  role: z.enum(['system', 'user', 'assistant']),
  content: z.string().min(1).max(MAX_PROBE_MESSAGE),
})
export type ProbeMessage = z.infer<typeof messageSchema>

export const createProbeRequestSchema = z.object({
  /** The conversation that is to be answered; its last message is a user's. */
  messages: z.array(messageSchema).min(1).max(16),
  /** Longest answer, tokens; default 64. */
  max_tokens: laxInteger({ min: 1, max: MAX_PROBE_TOKENS }).nullish(),
})
export type CreateProbeRequest = z.infer<typeof createProbeRequestSchema>

export const probeAnswerSchema = z.object({
  id: z.string(),
  object: z.literal('probe_answer'),
  probe_id: z.string(),
  /** Step of the model that answers; 0 is its base model. */
  step: z.number().int(),
  status: z.enum(PROBE_STATUSES),
  /** Null until it is answered. */
  text: z.string().nullable(),
  /** `stop`, or `length` where it was cut off. */
  finish_reason: z.string().nullable(),
  completion_tokens: z.number().int().nullable(),
  /** What answered, as `system_fingerprint` of a chat names it. */
  checkpoint: z.string().nullable(),
  /** Why there is none. */
  error: z.string().nullable(),
  created_at: z.string(),
  answered_at: z.string().nullable(),
})
export type ProbeAnswer = z.infer<typeof probeAnswerSchema>
export const probeAnswerListSchema = listSchema(probeAnswerSchema)

export const probeSchema = z.object({
  id: z.string(),
  object: z.literal('probe'),
  model_id: z.string(),
  messages: z.array(messageSchema),
  max_tokens: z.number().int(),
  created_at: z.string(),
  /** At the steps that the request names, lowest first; else that of the base model and the newest. */
  answers: z.array(probeAnswerSchema),
})
export type Probe = z.infer<typeof probeSchema>
export const probeListSchema = listSchema(probeSchema)

/** `0,12`. */
const stepsSchema = z
  .string()
  .max(100)
  .transform((text, context) => {
    const steps = text.split(',').map((word) => word.trim())
    if (steps.length <= MAX_SHOWN_STEPS && steps.every((step) => /^\d{1,9}$/.test(step))) return steps.map(Number)
    const message = `Input should be at most ${MAX_SHOWN_STEPS} steps, separated by commas`
    context.addIssue({ code: 'custom', message, params: { type: 'value_error' } })
    return z.NEVER
  })

export const listProbesQuerySchema = pageQuerySchema.extend({ steps: stepsSchema.optional() })
export type ListProbesQuery = z.infer<typeof listProbesQuerySchema>

export const listProbeAnswersQuerySchema = orderedPageQuerySchema
export type ListProbeAnswersQuery = z.infer<typeof listProbeAnswersQuerySchema>

export const askProbeRequestSchema = z.object({
  /** Steps that still have their checkpoint; 0 is the base model. */
  steps: z
    .array(laxInteger({ min: 0, max: 999_999_999 }))
    .min(1)
    .max(MAX_ASKED_STEPS),
})
export type AskProbeRequest = z.infer<typeof askProbeRequestSchema>

export const deletedProbeSchema = z.object({ id: z.string(), object: z.literal('probe'), deleted: z.literal(true) })
export type DeletedProbe = z.infer<typeof deletedProbeSchema>
