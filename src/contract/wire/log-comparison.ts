/**
 * What was logged at two steps of a model, prompt by prompt: which ones got better or worse. Ours.
 */
import { z } from 'zod'
import { laxInteger } from './lax.js'
import { OUTCOMES } from './outcome-words.js'

/** Pairs of an answer when the query gives no number. */
export const DEFAULT_PAIRS = 20

export const compareLogsQuerySchema = z.object({
  split: z.string().min(1).max(256),
  a: laxInteger({ min: 0 }),
  b: laxInteger({ min: 0 }),
  b_model_id: z.string().max(200).optional(),
  outcome: z.enum(OUTCOMES).optional(),
  limit: laxInteger({ min: 1, max: 100 }).optional(),
  offset: laxInteger({ min: 0, max: 1_000_000 }).optional(),
})
export type CompareLogsQuery = z.infer<typeof compareLogsQuerySchema>

/** At a and at b. An array of two items: a tuple is written in different ways by versions of JSON Schema. */
function two<T>(item: z.ZodType<T>): z.ZodType<readonly [T, T]> {
  const pair: z.ZodType = z.array(item).length(2)
  return pair as z.ZodType<readonly [T, T]>
}

const sideSchema = z.object({
  step: z.number().int(),
  /** Logs of the split at the step, whose prompts are pooled. */
  logs: z.number().int(),
  prompts: z.number().int(),
  answers: z.number().int(),
})

const answerSchema = z.object({ text: z.string(), reward: z.number() })

const pairSchema = z.object({
  /** `metadata.id` of the group or its first trajectory; null: paired by the prompt. */
  id: z.string().nullable(),
  /** What was said before the first answer. */
  messages: z.array(z.record(z.string(), z.json())),
  outcome: z.enum(OUTCOMES),
  /** Means of all answers at a and at b. */
  rewards: two(z.number()),
  /** How many answers they are means of. */
  counts: two(z.number().int()),
  /** The first ones at a and at b, long ones cut off. */
  answers: two(z.array(answerSchema)),
})
export type LoggedPair = z.infer<typeof pairSchema>

export const logComparisonSchema = z.object({
  object: z.literal('log_comparison'),
  model_id: z.string(),
  /** Whose step b is judged; mostly the same. */
  b_model_id: z.string(),
  split: z.string(),
  a: sideSchema,
  b: sideSchema,
  /** Prompts of both. */
  prompts: z.number().int(),
  /** At b against a. */
  wins: z.number().int(),
  ties: z.number().int(),
  losses: z.number().int(),
  rewards: two(z.number()),
  /** Mean of b minus a, and its 95% interval over prompts in pairs; null for fewer than two. */
  difference: z.number(),
  interval: two(z.number()).nullable(),
  /** Prompts that only one of them has, and groups that were too large to be compared or beyond the most that are. */
  unpaired: z.number().int(),
  skipped: z.number().int(),
  /** What got worst first, what got best last. */
  pairs: z.array(pairSchema),
  has_more: z.boolean(),
})
export type LogComparison = z.infer<typeof logComparisonSchema>
