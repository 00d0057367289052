/**
 * What a job would do, as `?plan=true` on the three routes that create jobs answers it: nothing is started, nothing is kept.
 */
import { z } from 'zod'
import { JOB_KINDS } from '../job-words.js'
import { laxBoolean } from '../lax.js'
import { trainingJobSchema } from '../training-jobs.js'
import { jobReportSchema } from './job-report.js'

export const createJobQuerySchema = z.object({
  /** Answer what the job would do instead of creating it. */
  plan: laxBoolean().optional(),
})

const plannedSequenceSchema = z.object({
  /** `trajectory_groups[0].trajectories[2]`, `line 3`, `line 3, chosen`. */
  source: z.string(),
  tokens: z.number().int(),
  trained_tokens: z.number().int(),
  /** What multiplies the loss of its tokens, after the scaling of the whole call; null but for RL. */
  advantage: z.number().nullable(),
  weight: z.number().nullable(),
  /** The answer mask: tokens that train and tokens that do not, in turns. A long text has its middle left out. */
  spans: z.array(z.object({ is_trained: z.boolean(), tokens: z.number().int(), text: z.string() })),
  omitted_spans: z.number().int(),
})

const plannedGroupSchema = z.object({
  index: z.number().int(),
  mean_reward: z.number(),
  reward_std_dev: z.number(),
  /** One per trajectory, before the scaling of the whole call; 0 does not train. */
  advantages: z.array(z.number()),
  /** Why nothing of the group trains. */
  left_out: z.enum(['equal_rewards', 'single_trajectory', 'empty', 'reward_is_mean']).nullable(),
})

/** What the process that plans finds out. */
export const planFindingsSchema = z.object({
  /** Optimizer steps, as `num_sequences` of the job. */
  num_gradient_steps: z.number().int(),
  /** Rows that go through the model, packed ones for RL; epochs count. */
  num_rows: z.number().int(),
  /** As the report of the job says when it has ended. */
  tokens: z.number().int(),
  trained_tokens: z.number().int(),
  /** The data of the job's `training_started` event. */
  started: z.record(z.string(), z.number()),
  left_out: jobReportSchema.shape.left_out,
  warnings: z.array(z.string()),
  /** The first groups of an RL job, and how many there are. */
  groups: z.array(plannedGroupSchema),
  num_groups: z.number().int(),
  /** The first sequences that train, and how many there are. */
  sequences: z.array(plannedSequenceSchema),
  num_sequences: z.number().int(),
  memory: z.object({
    /** Estimate for the largest rows that run together, beside the weights. */
    needed_bytes: z.number().nullable(),
    available_bytes: z.number().nullable(),
    is_recomputed: z.boolean().nullable(),
    rows: z.number().int(),
    row_length: z.number().int(),
  }),
  /** Why the job would fail at once; null when nothing speaks against it. */
  refusal: z.object({ code: z.string(), message: z.string() }).nullable(),
  time: z.object({
    /** Null when nothing trains or nothing could be measured. */
    predicted_seconds: z.number().nullable(),
    /** A measurement of two seconds, or the report of the last job of the same base model and row size. */
    basis: z.enum(['calibration', 'earlier_job']).nullable(),
    tokens_per_second: z.number().nullable(),
  }),
})
export type PlanFindings = z.infer<typeof planFindingsSchema>

export const trainingPlanSchema = planFindingsSchema.extend({
  object: z.literal('training_plan'),
  model_id: z.string(),
  kind: z.enum(JOB_KINDS),
  /** As submitted, nulls removed. */
  config: z.record(z.string(), z.json()),
  /** As on a job's record. */
  resolved_config: z.record(z.string(), z.json()).nullable().default(null),
  /** Chat template variables that the job trains for: its own, else those of the checkpoint it begins from. */
  chat_template_kwargs: z.record(z.string(), z.json()).default({}),
})
export type TrainingPlan = z.infer<typeof trainingPlanSchema>

/** What the routes that create a job answer. */
export const jobOrPlanSchema = z.union([trainingJobSchema, trainingPlanSchema])
