/**
 * Numbers of a model by step: what its jobs recorded and what was logged, whether or not the checkpoints still exist. Ours.
 */
import { z } from 'zod'
import { laxInteger } from './lax.js'

/** Who recorded a number: the job that made the step, or a log of trajectories at it. */
export const METRIC_SOURCES = ['job', 'log'] as const
export type MetricSource = (typeof METRIC_SOURCES)[number]

/** What a chart's horizontal axis may be. */
export const METRIC_AXES = ['step', 'time', 'tokens'] as const
export type MetricAxis = (typeof METRIC_AXES)[number]

/** Most points of a series that are chosen when the query gives no number. */
export const DEFAULT_METRIC_POINTS = 500
/** Tokens that a step trained, as its job recorded them. */
export const TRAINED_TOKENS_METRIC = 'data/step_trainer_tokens'

export const modelMetricsQuerySchema = z.object({
  keys: z.string().max(8000).optional(),
  from_step: laxInteger({ min: 0 }).optional(),
  to_step: laxInteger({ min: 0 }).optional(),
  points: laxInteger({ min: 4, max: 2000 }).optional(),
  x: z.enum(METRIC_AXES).optional(),
})
export type ModelMetricsQuery = z.infer<typeof modelMetricsQuerySchema>

export const modelMetricsSchema = z.object({
  object: z.literal('model.metrics'),
  model_id: z.string(),
  /** Ascending; those that thinning left. All lists are as long as this one. */
  steps: z.array(z.number().int()),
  /** When each step was first recorded, ISO 8601, UTC. */
  times: z.array(z.string()),
  /** Tokens trained up to each step, deleted ones among them; null before the first job that recorded them. */
  tokens: z.array(z.number().nullable()),
  /** The job that made each step, also where its checkpoint was deleted; null for the base model, and for what no job made. */
  job_ids: z.array(z.string().nullable()),
  /** The training session that made each step; null for what none made, and where its checkpoint was deleted. */
  session_ids: z.array(z.string().nullable()),
  /** By full name (`train/reward`); null where a step has none. */
  series: z.record(z.string(), z.array(z.number().nullable())),
  /** Every number there is in the range, also those that were not asked for, by name. */
  keys: z.array(
    z.object({
      key: z.string(),
      /** Who recorded it; `job` where both did, for the job's own goes first. */
      source: z.enum(METRIC_SOURCES),
      /** What stands before the first slash: `train`, `val`, `loss`; null without one. */
      split: z.string().nullable(),
      /** Steps that have it, before thinning. */
      count: z.number().int(),
    }),
  ),
})
export type ModelMetrics = z.infer<typeof modelMetricsSchema>
