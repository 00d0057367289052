/**
 * OpenAI's evals, the part of them that is here: rows of one's own, given answers or answers of a model, and graders with
 * thresholds.
 *
 * Deviation: sources `stored_completions`, `logs` and `responses` (stored ones) are refused by name, for nothing of them is kept.
 */
import { z } from 'zod'
import { metadataSchema } from '#contract/wire/compatible/metadata.js'
import { laxInteger } from '#contract/wire/lax.js'
import { listSchema, orderedPageQuerySchema } from '#contract/wire/list.js'
import { byBody, kept, word } from '#contract/wire/maxima.js'

const json = () => z.record(z.string(), z.json())
const name = z.string().min(1).max(256)

export const createEvalRequestSchema = z.object({
  name: name.nullish(),
  metadata: metadataSchema.nullish(),
  data_source_config: kept(
    z.looseObject({ type: word(), item_schema: kept(json()).nullish(), include_sample_schema: z.boolean().nullish() }),
  ),
  /** Graders with their `pass_threshold`. */
  testing_criteria: kept(z.array(json()).min(1).max(64)),
})
export type CreateEvalRequest = z.infer<typeof createEvalRequestSchema>

export const updateEvalRequestSchema = z.object({ name: name.nullish(), metadata: metadataSchema.nullish() })

export const evalSchema = z.object({
  object: z.literal('eval'),
  id: z.string(),
  name: z.string(),
  data_source_config: z.object({ type: z.literal('custom'), schema: json() }),
  testing_criteria: z.array(json()),
  created_at: z.number().int(),
  metadata: metadataSchema.nullable(),
})
export type Eval = z.infer<typeof evalSchema>

const orderQuery = orderedPageQuerySchema.extend({ order_by: z.literal('created_at').optional() })
export const listEvalsQuerySchema = orderQuery

export const RUN_STATUSES = ['queued', 'in_progress', 'completed', 'failed', 'canceled'] as const
export type RunStatus = (typeof RUN_STATUSES)[number]
export const ITEM_STATUSES = ['pass', 'fail', 'error'] as const
export type ItemStatus = (typeof ITEM_STATUSES)[number]

export const createRunRequestSchema = z.object({
  name: name.nullish(),
  metadata: metadataSchema.nullish(),
  data_source: byBody(z.looseObject({ type: word() })),
})
export type CreateRunRequest = z.infer<typeof createRunRequestSchema>

const count = z.number().int()
export const evalRunSchema = z.object({
  object: z.literal('eval.run'),
  id: z.string(),
  eval_id: z.string(),
  name: z.string(),
  model: z.string(),
  status: z.enum(RUN_STATUSES),
  created_at: z.number().int(),
  /** There is no page of it. */
  report_url: z.string(),
  result_counts: z.object({ total: count, passed: count, failed: count, errored: count }),
  per_model_usage: z.array(
    z.object({
      model_name: z.string(),
      invocation_count: count,
      prompt_tokens: count,
      completion_tokens: count,
      cached_tokens: count,
      total_tokens: count,
    }),
  ),
  per_testing_criteria_results: z.array(z.object({ testing_criteria: z.string(), passed: count, failed: count })),
  data_source: json(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  metadata: metadataSchema.nullable(),
})
export type EvalRun = z.infer<typeof evalRunSchema>

export const listRunsQuerySchema = orderedPageQuerySchema.extend({ status: z.enum(RUN_STATUSES).optional() })
export const listItemsQuerySchema = orderedPageQuerySchema.extend({ status: z.enum(ITEM_STATUSES).optional() })

const message = z.object({ role: z.string(), content: z.string() })
export const outputItemSchema = z.object({
  object: z.literal('eval.run.output_item'),
  id: z.string(),
  run_id: z.string(),
  eval_id: z.string(),
  created_at: z.number().int(),
  status: z.enum(ITEM_STATUSES),
  datasource_item_id: laxInteger({ min: 0 }),
  datasource_item: json(),
  results: z.array(z.looseObject({ name: z.string(), type: z.string(), score: z.number(), passed: z.boolean() })),
  sample: z.object({
    input: z.array(message),
    output: z.array(message),
    finish_reason: z.string(),
    model: z.string(),
    usage: z.object({ prompt_tokens: count, completion_tokens: count, cached_tokens: count, total_tokens: count }),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    temperature: z.number().nullable(),
    max_completion_tokens: z.number().nullable(),
    top_p: z.number().nullable(),
    seed: z.number().nullable(),
  }),
})
export type OutputItem = z.infer<typeof outputItemSchema>

export const evalListSchema = listSchema(evalSchema)
export const evalRunListSchema = listSchema(evalRunSchema)
export const outputItemListSchema = listSchema(outputItemSchema)
export const deletedEvalSchema = z.object({
  object: z.literal('eval.deleted'),
  deleted: z.literal(true),
  eval_id: z.string(),
})
export const deletedRunSchema = z.object({
  object: z.literal('eval.run.deleted'),
  deleted: z.literal(true),
  run_id: z.string(),
})
