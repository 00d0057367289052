/**
 * OpenAI's graders/run and graders/validate. A grader's own fields are read by `plugins/graders/grading/spec.ts`, which names
 * what is wrong by its path.
 */
import { z } from 'zod'
import { byBody } from '#contract/wire/maxima.js'

const graderSchema = byBody(z.record(z.string(), z.json()))

export const validateGraderSchema = z.object({ grader: graderSchema })
export const validateGraderResponseSchema = validateGraderSchema.extend({
  /** Ours: how it runs here. */
  warnings: z.array(z.string()).optional(),
})
export type ValidateGraderResponse = z.infer<typeof validateGraderResponseSchema>

export const runGraderRequestSchema = z.object({
  grader: graderSchema,
  /** The row. */
  item: byBody(z.record(z.string(), z.json())).nullish(),
  /** The text of an answer, or an answer of chat: an object with `choices`, which may call tools. */
  model_sample: z.union([byBody(z.string()), byBody(z.record(z.string(), z.json()))]),
})
export type RunGraderRequest = z.infer<typeof runGraderRequestSchema>

const errorsSchema = z.object({
  formula_parse_error: z.boolean(),
  sample_parse_error: z.boolean(),
  truncated_observation_error: z.boolean(),
  unresponsive_reward_error: z.boolean(),
  invalid_variable_error: z.boolean(),
  other_error: z.boolean(),
  python_grader_server_error: z.boolean(),
  python_grader_server_error_type: z.string().nullable(),
  python_grader_runtime_error: z.boolean(),
  python_grader_runtime_error_details: z.string().nullable(),
  model_grader_server_error: z.boolean(),
  model_grader_refusal_error: z.boolean(),
  model_grader_parse_error: z.boolean(),
  model_grader_server_error_details: z.string().nullable(),
})

export const runGraderResponseSchema = z.object({
  reward: z.number(),
  metadata: z.object({
    name: z.string(),
    type: z.string(),
    /** A grader that errs is no error of the request: its reward is 0, and its flag is here. */
    errors: errorsSchema,
    /** Ours: each error with the grader that met it. */
    error_details: z.array(z.object({ flag: z.string(), grader: z.string(), message: z.string() })),
    /** Seconds. */
    execution_time: z.number(),
    /** By grader. */
    scores: z.record(z.string(), z.number()),
    /** Ours: which graders with a `pass_threshold` it passed. */
    passed: z.record(z.string(), z.boolean()),
    token_usage: z.record(z.string(), z.number()).nullable(),
    sampled_model_name: z.string().nullable(),
  }),
  /** By the keys of the graders of a `multi`. */
  sub_rewards: z.record(z.string(), z.number()),
  model_grader_token_usage_per_model: z.record(
    z.string(),
    z.object({ prompt_tokens: z.number(), completion_tokens: z.number(), cached_tokens: z.number() }),
  ),
})
export type RunGraderResponse = z.infer<typeof runGraderResponseSchema>
