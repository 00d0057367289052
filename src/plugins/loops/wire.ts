/**
 * Loops as the API has them.
 */
import { z } from 'zod'
import { laxInteger } from '#contract/wire/lax.js'
import { listSchema, pageQuerySchema } from '#contract/wire/list.js'
import { byBody, kept } from '#contract/wire/maxima.js'
import { modelMetricsQuerySchema } from '#contract/wire/model-metrics.js'
import { LOOP_STATUSES, PHASES } from './storage/loops.js'

const json = () => z.record(z.string(), z.json())

const limitsSchema = z.object({
  /** Tokens of models that grade, prompts and answers together. */
  grader_tokens: laxInteger({ min: 1 }).nullish(),
  seconds: laxInteger({ min: 1 }).nullish(),
  endpoint_calls: laxInteger({ min: 1 }).nullish(),
})

export const createLoopRequestSchema = z.object({
  model_id: z.guid(),
  /** File of `{"messages": […], …}`, a row a line; what templates of the grader name stands beside. */
  prompts_file: z.string().min(1).max(200),
  /** The same form; without one some rows of the prompts are held out. */
  held_out_file: z.string().min(1).max(200).nullish(),
  /** Without a file: how many; default a tenth, 4 to 200. 0: nothing is evaluated. */
  held_out_rows: laxInteger({ min: 0, max: 1000 }).nullish(),
  /** In OpenAI's form. */
  grader: byBody(json()),
  /** As chat completions take it. */
  response_format: byBody(json()).nullish(),
  prompts_per_step: laxInteger({ min: 1, max: 256 }).nullish(),
  answers_per_prompt: laxInteger({ min: 2, max: 64 }).nullish(),
  steps: laxInteger({ min: 1, max: 10_000 }).nullish(),
  /** Steps between evaluations; one comes before the first step and one after the last, too. */
  evaluate_every: laxInteger({ min: 1, max: 10_000 }).nullish(),
  answers_per_held_out: laxInteger({ min: 1, max: 64 }).nullish(),
  /** The same seed, rows and model: the same answers. */
  seed: laxInteger({ min: 0, max: Number.MAX_SAFE_INTEGER }).nullish(),
  /** Fields of chat completions, for example `max_completion_tokens`. */
  sampling: kept(json()).nullish(),
  /** Configuration of its jobs, as `POST /v1/preview/training-jobs` takes it. */
  config: kept(json()).nullish(),
  /** `{name, server_url, headers}`: who answers calls of a function, as Azure's jobs have it; read by `tools.ts`. */
  tools: kept(z.array(z.json())).nullish(),
  /** Turns of the model in an episode with tools; default 10. */
  max_episode_steps: laxInteger({ min: 1, max: 100 }).nullish(),
  /** At one the loop pauses; resumed it may use as much again. */
  limits: limitsSchema.nullish(),
})
export type CreateLoopRequest = z.infer<typeof createLoopRequestSchema>

const count = () => z.number().int()

export const loopSchema = z.object({
  id: z.string(),
  object: z.literal('loop'),
  model_id: z.string(),
  status: z.enum(LOOP_STATUSES),
  phase: z.enum(PHASES).nullable(),
  /** Steps that have ended, and all. */
  step: count(),
  steps: count(),
  prompts_file: z.string(),
  held_out_file: z.string().nullable(),
  held_out_rows: count(),
  grader: json(),
  response_format: json().nullable(),
  prompts_per_step: count(),
  answers_per_prompt: count(),
  evaluate_every: count(),
  answers_per_held_out: count(),
  seed: count(),
  sampling: json(),
  config: json(),
  /** Without the values of their headers, which are keys. */
  tools: z.array(z.object({ name: z.string(), server_url: z.string(), headers: z.record(z.string(), z.string()) })),
  /** Null: no tools, and an answer is one turn. */
  max_episode_steps: count().nullable(),
  limits: z.object({
    grader_tokens: count().nullable(),
    seconds: count().nullable(),
    endpoint_calls: count().nullable(),
  }),
  used: z.object({ grader_tokens: count(), seconds: z.number(), endpoint_calls: count(), trained_tokens: count() }),
  /** The newest hundred, oldest first; in lists the newest one. All of them are among the steps of `…/metrics`. */
  evaluations: z.array(
    z.object({
      /** Of the loop; 0: before the first. */
      step: count(),
      /** Of the model. */
      checkpoint_step: count(),
      train_reward: z.number().nullable(),
      valid_reward: z.number(),
    }),
  ),
  /** Job of the step that runs. */
  training_job_id: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  ended_at: z.string().nullable(),
})
export type Loop = z.infer<typeof loopSchema>

export const loopListSchema = listSchema(loopSchema)

/** Numbers of a loop by step, for charts. */
export const loopMetricsSchema = z.object({
  object: z.literal('loop.metrics'),
  loop_id: z.string(),
  /** Ascending; those that thinning left. 0: before the first. All lists are as long as this one. */
  steps: z.array(count()),
  /** Steps of the model. */
  checkpoint_steps: z.array(count()),
  /** Jobs that trained; null where nothing was left to train on. */
  job_ids: z.array(z.string().nullable()),
  /** By name (`train_reward`, `graders/<name>/valid`); null where a step has none. */
  series: z.record(z.string(), z.array(z.number().nullable())),
  /** Sums over all steps, of what can be summed: tokens by model, errors by kind. */
  totals: z.record(z.string(), z.number()),
})
export type LoopMetrics = z.infer<typeof loopMetricsSchema>

export const loopMetricsQuerySchema = modelMetricsQuerySchema.pick({ points: true })

const exampleSchema = z.object({
  /** What was asked last. Texts are cut. */
  prompt: z.string(),
  answer: z.string(),
  reward: z.number(),
  /** By the keys of the graders of a `multi`. */
  sub_rewards: z.record(z.string(), z.number()),
  passed: z.record(z.string(), z.boolean()),
  error_details: z.array(z.object({ grader: z.string(), flag: z.string(), message: z.string() })),
})

export const loopAnswersSchema = z.object({
  object: z.literal('loop.answers'),
  loop_id: z.string(),
  /** Of the newest evaluation; null: there was none. */
  step: count().nullable(),
  checkpoint_step: count().nullable(),
  /** The best first. */
  best: z.array(exampleSchema),
  /** The worst first. */
  worst: z.array(exampleSchema),
})
export type LoopAnswers = z.infer<typeof loopAnswersSchema>

export const listLoopsQuerySchema = pageQuerySchema.extend({ model_id: z.string().max(256).optional() })

const EVENT_TYPES = ['message', 'metrics'] as const

export const listLoopEventsQuerySchema = pageQuerySchema.extend({ type: z.enum(EVENT_TYPES).optional() })

const loopEventSchema = z.object({
  id: z.string(),
  object: z.literal('loop.event'),
  /** `metrics`: what a step came to, by the names of OpenAI's reinforcement jobs. */
  type: z.enum(EVENT_TYPES),
  level: z.enum(['info', 'warn', 'error']),
  message: z.string(),
  data: json(),
  created_at: z.string(),
})
export type LoopEventBody = z.infer<typeof loopEventSchema>

export const loopEventListSchema = listSchema(loopEventSchema)
