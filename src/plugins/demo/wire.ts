/**
 * The demo over HTTP: what is asked for, and how far it is.
 */
import { z } from 'zod'
import { DEMO_KINDS } from './events.js'

const MAX_NAME = 256

export const startDemoRequestSchema = z.object({
  /** Rewards, or examples. Default `rl`. */
  kind: z.enum(DEMO_KINDS).nullish(),
  /** What is taught: `ask-back` (default), `brief` or `count`. */
  task: z.string().min(1).max(MAX_NAME).nullish(),
  /** Weights to start from; default `trainyard/spark`. */
  base_model: z.string().min(1).max(MAX_NAME).nullish(),
  /** Of its model; default the key's own, else `default`. */
  project: z.string().min(1).max(MAX_NAME).nullish(),
  /** Of prompts, answers and adapters; default random. */
  seed: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).nullish(),
})
export type StartDemoRequest = z.infer<typeof startDemoRequestSchema>

export const demoStateSchema = z.object({
  object: z.literal('demo'),
  /** `idle`: none was run since this server started. */
  status: z.enum(['idle', 'running', 'completed', 'failed', 'stopped']),
  kind: z.enum(DEMO_KINDS).nullable(),
  /** Completes "teach the model to …"; null before it has begun. */
  teaches: z.string().nullable(),
  model_id: z.string().nullable(),
  /** Name and project of its model. */
  model: z.string().nullable(),
  project: z.string().nullable(),
  /** Newest step. */
  step: z.number().int(),
  /** Mean reward of held-out prompts, by step. */
  held_out: z.array(z.object({ step: z.number().int(), reward: z.number() })),
  /** Why it failed. */
  error_message: z.string().nullable(),
})
export type DemoState = z.infer<typeof demoStateSchema>
