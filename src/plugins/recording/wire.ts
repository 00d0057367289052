/**
 * Wire of recorded rollouts.
 */
import { z } from 'zod'
import { laxInteger, laxNumber } from '#contract/wire/lax.js'
import { listSchema, pageQuerySchema } from '#contract/wire/list.js'
import { atMost, MAX_MESSAGE, METRICS_OF_CLIENTS } from '#contract/wire/maxima.js'
import { trajectorySchema } from '#contract/wire/trajectories.js'

/** `sessions`: an address at which every `X-Session-ID` is a rollout of its own. */
export const ROLLOUT_KINDS = ['rollout', 'sessions'] as const
export type RolloutKind = (typeof ROLLOUT_KINDS)[number]
export const ROLLOUT_STATUSES = ['open', 'finished', 'failed', 'expired'] as const
export type RolloutStatus = (typeof ROLLOUT_STATUSES)[number]

const MOST_TURNS = 1000
const MOST_SAMPLED_TOKENS = 1_000_000
const MOST_SECONDS = 7 * 24 * 3600
export const LONGEST_SESSION = 256
const MOST_PARTS = 64

/** What a row can hold in every database. */
const name = (characters: number) =>
  z
    .string()
    .min(1)
    .max(characters)
    .regex(/^[^\0]*$/, 'must not hold the character U+0000')

const rolloutSamplingSchema = z.strictObject({
  temperature: laxNumber({ min: 0, max: 100 }).optional(),
  top_p: laxNumber({ min: 1e-9, max: 1 }).optional(),
  top_k: laxInteger({ min: 0 }).optional(),
  min_p: laxNumber({ min: 0, max: 1 }).optional(),
})
export type RolloutSampling = z.output<typeof rolloutSamplingSchema>

export const createRolloutRequestSchema = z.object({
  /** As in a chat; every request of the rollout goes to it. */
  model: name(1000),
  /** What belongs together: rows are read by it. */
  run: name(256).default('default'),
  /** Trajectories of one task are compared. Of `sessions` it is said at each one's end. */
  task: name(512).default('default'),
  /** Which of several groups of the task. */
  group: name(256).default('0'),
  /** How tokens are sampled, whatever requests say. Default: at temperature 1 from the whole vocabulary. */
  sampling: rolloutSamplingSchema.default({}),
  sessions: z.boolean().default(false),
  /** Requests for answers. */
  max_turns: laxInteger({ min: 1, max: MOST_TURNS }).default(256),
  /** Requests are let in until so many tokens were sampled. */
  max_tokens: laxInteger({ min: 1, max: MOST_SAMPLED_TOKENS }).default(100_000),
  expires_in_seconds: laxInteger({ min: 1, max: MOST_SECONDS }).default(3600),
})
export type CreateRolloutRequest = z.output<typeof createRolloutRequestSchema>

const rewardSchema = z.strictObject({ score: z.number(), weight: z.number().default(1) })

export const finishRolloutRequestSchema = z.object({
  /** Of an address for sessions: which one ends. Absent: the address itself, and all of its sessions that are open. */
  session: name(LONGEST_SESSION).nullish(),
  task: name(512).nullish(),
  group: name(256).nullish(),
  /** The reward is the sum of score times weight. */
  rewards: atMost(z.record(z.string(), rewardSchema), MOST_PARTS).default({}),
  metrics: atMost(z.record(z.string(), z.number()), METRICS_OF_CLIENTS.nameLength).default({}),
  /** What went wrong: the rollout becomes an exception of its group. */
  error: z.object({ type: name(100), message: z.string().max(MAX_MESSAGE).default('') }).nullish(),
})
export type FinishRolloutRequest = z.output<typeof finishRolloutRequestSchema>

export const recordedRolloutSchema = z.object({
  id: z.string(),
  object: z.literal('rollout'),
  status: z.enum(ROLLOUT_STATUSES),
  kind: z.enum(ROLLOUT_KINDS),
  model: z.string(),
  run: z.string(),
  task: z.string(),
  group: z.string(),
  session: z.string().nullable(),
  sampling: rolloutSamplingSchema,
  max_turns: z.number().int(),
  max_tokens: z.number().int(),
  /** Requests that were let in, without those that were refused. */
  turns: z.number().int(),
  sampled_tokens: z.number().int(),
  /** Answers that did not arrive whole; they are not trained. */
  undelivered_calls: z.number().int(),
  /** Requests that asked for another sampling than the rollout's. */
  overridden_calls: z.number().int(),
  /** Null: not rewarded. */
  reward: z.number().nullable(),
  rewards: z.record(z.string(), rewardSchema),
  metrics: z.record(z.string(), z.number()),
  error: z.object({ type: z.string(), message: z.string() }).nullable(),
  created_at: z.string(),
  expires_at: z.string(),
  ended_at: z.string().nullable(),
})
export type RecordedRollout = z.output<typeof recordedRolloutSchema>

export const createdRolloutSchema = recordedRolloutSchema.extend({
  /** For clients of OpenAI; those of Anthropic take it without `/v1`. */
  base_url: z.string(),
  /** The token of the address, for clients that insist on a key: what is sent as one below the address is not looked at. */
  api_key: z.string(),
})
export type CreatedRollout = z.output<typeof createdRolloutSchema>

export const rolloutWithTrajectorySchema = recordedRolloutSchema.extend({ trajectory: trajectorySchema.nullable() })

export const rolloutListSchema = listSchema(recordedRolloutSchema)

export const listRolloutsQuerySchema = pageQuerySchema.extend({
  run: name(256).optional(),
  session: name(LONGEST_SESSION).optional(),
})
export type ListRolloutsQuery = z.output<typeof listRolloutsQuerySchema>

export const rolloutGroupsQuerySchema = z.object({
  run: name(256),
  task: name(512).optional(),
  group: name(256).optional(),
})
export type RolloutGroupsQuery = z.output<typeof rolloutGroupsQuerySchema>

export const deletedRolloutSchema = z.object({ id: z.string(), object: z.literal('rollout'), deleted: z.literal(true) })
