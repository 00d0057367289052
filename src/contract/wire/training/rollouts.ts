/**
 * What a job trained on, kept past its end: its groups, one group, one trajectory turn by turn, and its tokens with the numbers that
 * the trainer used. All additions of ours.
 *
 * Numbers of tokens are columns of equal length; null is what does not exist: a log-probability of a token that does not train,
 * or that the sampler did not give. Log-probabilities are natural ones, entropies nats.
 */
import { z } from 'zod'
import { laxInteger, laxNumber } from '../lax.js'
import { listSchema, pageQuerySchema } from '../list.js'
import { GROUP_ORDERS, LEFT_OUT_REASONS } from './rollout-words.js'

const nullableNumber = z.number().nullable()
const count = z.number().int().nonnegative()

/** Lowest, highest and mean; null as a whole where there is none. */
const spreadSchema = z.object({ min: z.number(), max: z.number(), mean: z.number() }).nullable()
export type Spread = z.infer<typeof spreadSchema>

export const rolloutGroupSchema = z.object({
  /** Its index as text: the cursor of the list. */
  id: z.string(),
  object: z.literal('training.rollout_group'),
  /** Place among the groups of the request, from 0. */
  index: count,
  /** What its members were asked, at most 200 characters. */
  prompt_preview: z.string(),
  trajectories: count,
  /** Rollouts that failed; they take no part. */
  exceptions: count,
  /** Trajectories that train. */
  trained: count,
  /** Null without a trajectory. */
  mean_reward: nullableNumber,
  /** Population standard deviation. */
  reward_std_dev: nullableNumber,
  reward: spreadSchema,
  advantage: spreadSchema,
  /** Trained tokens of a trajectory that trains. */
  tokens: spreadSchema,
  /** Mean over the trained tokens; null where none was noted. */
  entropy: nullableNumber,
  /** Trajectories with an answer that ended by length. */
  cut_off: count,
  /** Why none of it trains; null where one does. */
  left_out: z.enum(LEFT_OUT_REASONS).nullable(),
})
export type RolloutGroup = z.infer<typeof rolloutGroupSchema>

export const rolloutGroupListSchema = listSchema(rolloutGroupSchema).extend({
  /** How many trajectories of the groups chosen have a reward in each of at most ten stretches of equal width. */
  histogram: z.array(z.object({ from: z.number(), to: z.number(), count })),
  /** All of the job, whatever was chosen. */
  group_count: count,
  trajectory_count: count,
  trained_count: count,
  /** Of those that trained: with advantage 0, so that only a KL or entropy term, if any, moved them. */
  zero_advantage_count: count.default(0),
  /** Failed rollouts by the type of what was thrown, most first. Absent from older servers. */
  failures: z.array(z.object({ type: z.string(), count })).default([]),
  /** As groups name them in `metadata.environment`, with how many do. Absent from older servers. */
  environments: z.array(z.object({ name: z.string(), groups: count })).default([]),
  /** Sequences that trained and of whose tokens nothing is noted: they were too many, or an earlier attempt trained them. */
  unnoted_count: count,
  /** Sequences that were to train, and whose step was not made: the job ended before it. */
  untrained_count: count,
  /** Bounds of the importance ratio beyond which a token counts as clipped; null: none. */
  clip: z.object({ low: nullableNumber, high: nullableNumber }),
  /** Step of the checkpoint that the job went on from. */
  parent_step: count,
  kept_until: z.string(),
})
export type RolloutGroupList = z.infer<typeof rolloutGroupListSchema>

export const listRolloutGroupsQuerySchema = pageQuerySchema.extend({
  sort: z.enum(GROUP_ORDERS).optional(),
  min_reward: laxNumber().optional(),
  max_reward: laxNumber().optional(),
  trained: z.enum(['true', 'false']).optional(),
})
export type ListRolloutGroupsQuery = z.infer<typeof listRolloutGroupsQuerySchema>

const memberSchema = z.object({
  /** Place in its group, from 0. */
  index: count,
  reward: z.number(),
  /** The reward that its advantage is taken of, where the job shapes rewards; else the same. */
  shaped_reward: z.number(),
  /** What the loss of each of its tokens is multiplied with; null where it does not train. */
  advantage: nullableNumber,
  /** Its weight in the loss; null where it does not train. */
  weight: nullableNumber,
  left_out: z.enum(LEFT_OUT_REASONS).nullable(),
  /** Trained tokens. */
  tokens: count,
  entropy: nullableNumber,
  cut_off: z.boolean(),
  metrics: z.record(z.string(), z.number()),
  metadata: z.record(z.string(), z.json()),
  /** Steps of the model that served it as its rollout began and ended; null where nobody said. */
  initial_policy_version: z.number().int().nullable(),
  final_policy_version: z.number().int().nullable(),
})

export const rolloutGroupDetailSchema = rolloutGroupSchema.extend({
  metadata: z.record(z.string(), z.json()),
  metrics: z.record(z.string(), z.number()),
  failed: z.array(z.object({ type: z.string(), message: z.string() })),
  members: z.array(
    memberSchema.extend({
      /** Its last answer, at most 4,000 characters. */
      answer: z.string(),
    }),
  ),
})
export type RolloutGroupDetail = z.infer<typeof rolloutGroupDetailSchema>

export const rolloutTrajectorySchema = memberSchema.extend({
  id: z.string(),
  object: z.literal('training.rollout_trajectory'),
  training_job_id: z.string(),
  group: count,
  /** Members of its group. */
  group_size: count,
  /** The main history first. */
  histories: z.array(
    z.object({
      messages: z.array(
        z.object({
          /** As it was sent. */
          message: z.record(z.string(), z.json()),
          /** Sampled from the policy: its tokens may train. */
          is_sampled: z.boolean(),
          finish_reason: z.string().nullable(),
        }),
      ),
      tools: z.array(z.record(z.string(), z.json())).nullable(),
    }),
  ),
  /** What its histories were trained as; one where each prompt begins with all before it. */
  sequences: z.array(z.object({ index: count, gradient_step: count, length: count, trained: count })),
})
export type RolloutTrajectory = z.infer<typeof rolloutTrajectorySchema>

export const rolloutTokensQuerySchema = z.object({
  sequence: laxInteger({ min: 0, max: 1_000_000 }).optional(),
  from: laxInteger({ min: 0, max: 2 ** 31 }).optional(),
  to: laxInteger({ min: 1, max: 2 ** 31 }).optional(),
})
export type RolloutTokensQuery = z.infer<typeof rolloutTokensQuerySchema>

const numbers = z.array(nullableNumber)
const rangeFields = {
  group: count,
  trajectory: count,
  sequence: count,
  /** Tokens of the sequence. */
  length: count,
  /** The tokens that are answered, `to` not included. */
  from: count,
  to: count,
}

export const rolloutTokensSchema = z.object({
  object: z.literal('training.rollout_tokens'),
  ...rangeFields,
  gradient_step: count,
  advantage: nullableNumber,
  weight: nullableNumber,
  clip: z.object({ low: nullableNumber, high: nullableNumber }),
  ids: z.array(z.number().int()),
  /** Null where the bytes of a token are no text of their own. */
  texts: z.array(z.string().nullable()),
  /** Hex of those bytes; null where `texts` has them. */
  bytes: z.array(z.string().nullable()),
  is_control: z.array(z.boolean()),
  is_trained: z.array(z.boolean()),
  sampler_logprob: numbers,
  old_logprob: numbers,
  learner_logprob: numbers,
  ratio: numbers,
  is_clipped: z.array(z.boolean()),
  entropy: numbers,
  reference_logprob: numbers,
  /** What logits were divided by where the token was drawn; null: 1, or it was given. Absent from older servers. */
  temperature: numbers.optional(),
  /** How many tokens could be drawn there; null: all. Absent from older servers. */
  kept: numbers.optional(),
})
export type RolloutTokens = z.infer<typeof rolloutTokensSchema>

export const rolloutScoresQuerySchema = rolloutTokensQuerySchema.extend({
  step: z
    .string()
    .regex(/^(?:latest|\d{1,9})$/)
    .optional(),
})
export type RolloutScoresQuery = z.infer<typeof rolloutScoresQuerySchema>

export const rolloutScoresSchema = z.object({
  object: z.literal('training.rollout_scores'),
  ...rangeFields,
  /** Step of the checkpoint that scored; 0 is the base model. */
  step: count,
  /** What scored: model, step and digest, as answers of chats have it. */
  system_fingerprint: z.string(),
  /** Of every token under the checkpoint, log-softmax of the raw logits; null for the first of a sequence. */
  logprob: numbers,
})
export type RolloutScores = z.infer<typeof rolloutScoresSchema>

export const deletedTrainingDataSchema = z.object({
  id: z.string(),
  object: z.literal('training_job.data'),
  deleted: z.boolean(),
})
