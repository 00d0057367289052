/**
 * What a training worker notes of an RL job's rollouts, as it uploads it: a line of JSON, and the numbers of every token behind it.
 *
 *     line   the head below, UTF-8, ended by a line feed
 *     data   little-endian; `offset` counts from its first byte, and every block begins at a multiple of 4
 *            a sequence: ids int32[length], then per column float32[trained], then mask uint8[length]
 *            pieces:     ids int32[count], ends int32[count], flags uint8[count] (1: control token), bytes of all pieces
 *
 * Columns follow the tokens whose mask is 1, in order. NaN: the trainer had no such number. The end of a piece is where its bytes end.
 */

import { z } from 'zod'
import { atMost } from '../wire/maxima.js'
import { LEFT_OUT_REASONS } from '../wire/training/rollout-words.js'

/**
 * Numbers of a trained token. All are natural logarithms of probabilities, of the distribution that the token was drawn from, but `ratio`,
 * `temperature` and `kept` (dimensionless) and `entropy` (nats).
 */
export const ROLLOUT_COLUMNS = [
  /** Of the sampler, as it came with the data. */
  'sampler_logprob',
  /** What the ratio is taken against: the sampler's, or the trainer's own before the first step (`precalculate_logprobs`). */
  'old_logprob',
  /** Of the policy at the gradient step that trained the token, before its update. */
  'learner_logprob',
  /** Importance ratio as the loss has it, before clipping. */
  'ratio',
  /** Of the policy's distribution at the token's place. */
  'entropy',
  /** Of the KL reference. */
  'reference_logprob',
  /** What logits were divided by; NaN: 1. */
  'temperature',
  /** How many tokens could be drawn; NaN: all. */
  'kept',
] as const
export type RolloutColumn = (typeof ROLLOUT_COLUMNS)[number]

/** Longest sequence that is noted, tokens: longer ones count as left out. */
export const MAX_NOTED_TOKENS = 2 ** 20
/** Most pieces, more than any vocabulary has, and most bytes of their texts. */
const MAX_PIECES = 2 ** 20
const MAX_PIECE_BYTES = 64 * 1024 ** 2

/** Longer names are cut. */
export const MOST_TYPE_LETTERS = 64
/** Of a group; the rest is counted under the last of them. */
export const MOST_TYPES = 64
export const MOST_ENVIRONMENT_LETTERS = 200

/** Groups, trajectories of one of them, sequences: the head's own bytes bound them together (`rollouts-file.ts`). */
const MAX_ROWS = 2 ** 20

const count = z.number().int().nonnegative()

const trajectorySchema = z.object({
  reward: z.number(),
  /** The reward that advantages are taken of, where the job shapes rewards; absent: the same. */
  shaped: z.number().optional(),
  /** Absent: it trains. */
  left_out: z.enum(LEFT_OUT_REASONS).optional(),
  /** Tokens of it that train, of all its sequences. */
  tokens: count,
  /** An answer of it ended by length. */
  is_cut: z.boolean().optional(),
  /** As multiplied with the loss of its tokens, and their weight in it; absent: it does not train. */
  advantage: z.number().optional(),
  weight: z.number().optional(),
})
export type RolloutTrajectory = z.infer<typeof trajectorySchema>

const sequenceSchema = z.object({
  group: count,
  trajectory: count,
  /** Gradient step that trained it, from 1. */
  step: z.number().int().positive(),
  length: count.max(MAX_NOTED_TOKENS),
  trained: count.max(MAX_NOTED_TOKENS),
  offset: count,
  /** Sum of the entropies of its trained tokens. */
  entropy: z.number().nullable(),
})
export type RolloutSequence = z.infer<typeof sequenceSchema>

export const rolloutsHeadSchema = z.object({
  version: z.literal(1),
  /** Bounds of the ratio beyond which a token counts as clipped; null: none. */
  clip: z.object({ low: z.number().nullable(), high: z.number().nullable() }),
  columns: z.array(z.enum(ROLLOUT_COLUMNS)).max(ROLLOUT_COLUMNS.length),
  /** Step of the checkpoint the job went on from. */
  parent_step: count,
  /** In the order of the job's rows. */
  groups: z
    .array(
      z.object({
        preview: z.string().max(2000),
        exceptions: count,
        /** Of these, by type. Absent in older files, and where there are none. */
        failures: atMost(z.record(z.string().max(MOST_TYPE_LETTERS), count), MOST_TYPES).optional(),
        /** As its metadata names it. */
        environment: z.string().max(MOST_ENVIRONMENT_LETTERS).optional(),
        trajectories: z.array(trajectorySchema).max(MAX_ROWS),
      }),
    )
    .max(MAX_ROWS),
  /** Those whose tokens were noted, in the order they trained. */
  sequences: z.array(sequenceSchema).max(MAX_ROWS),
  /** Sequences that trained and of which nothing is noted: they were too many, or an earlier attempt trained them. */
  omitted: count,
  /** Sequences whose step was not made: the job ended before. Absent in older files. */
  untrained: count.optional(),
  pieces: z.object({ offset: count, count: count.max(MAX_PIECES), bytes: count.max(MAX_PIECE_BYTES) }),
})
export type RolloutsHead = z.infer<typeof rolloutsHeadSchema>

/** Bytes of a sequence's block. */
export function sequenceBytes(length: number, trained: number, columns: number): number {
  return 4 * (length + trained * columns) + Math.ceil(length / 4) * 4
}
