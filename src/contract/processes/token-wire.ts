/**
 * Tokens in, tokens out: what an engine host sends to an engine node, and what comes back.
 *
 *     POST /inference/v1/generate    GenerateBody → GenerateChunk, … as server-sent events; of vLLM GenerateWhole, unless `stream`
 *
 * The wire is vLLM's (0.32 and 0.33, `--enable-scale-out`), so that a node of vLLM forwards it as it is. What only our own engine knows
 * stands in `sampling_params.extra_args.trainyard`, and in `cached_tokens` and `prompt` of chunks that come before the first token.
 */
import { z } from 'zod'
import { LONGEST_UNMODELLED_NAME, MOST_KEPT_IDS, MOST_UNMODELLED_NAMES } from '#base/sampling-record.js'
import { atMost, MAX_MESSAGE } from '../wire/maxima.js'

const tokenId = z.number().int().nonnegative()
/** More than any context has. */
const MAX_TOKENS = 2 ** 24
/** Answers of one request. */
const MAX_CHOICES = 4096
const tokenIds = z.array(tokenId).max(MAX_TOKENS)
const word = z.string().max(1000)

/** Rules that vLLM has no words for. Refused for it before they are sent. */
export const ownRulesSchema = z.strictObject({
  /** Sequences that must not be written. */
  bad_words: z.array(tokenIds).optional(),
  dry: z
    .strictObject({
      multiplier: z.number(),
      base: z.number(),
      allowed_length: z.number(),
      last_tokens: z.number(),
      breaker_ids: tokenIds,
    })
    .optional(),
  xtc: z.strictObject({ probability: z.number(), threshold: z.number() }).optional(),
  beam: z.strictObject({ length_penalty: z.number() }).optional(),
  /** A `GrammarSpec`. */
  grammar: z.looseObject({ kind: z.string() }).optional(),
  /** The grammar holds what comes after the reasoning that is open. */
  grammar_after_reasoning: z.boolean().optional(),
  /** Biases that JSON has no number for: these tokens are forbidden. */
  forbidden_ids: tokenIds.optional(),
  /** Signed, 64 bits, in decimal digits. */
  seed: z
    .string()
    .regex(/^-?\d{1,19}$/)
    .optional(),
  /** Requests of different keys take turns. */
  key_id: z.string().optional(),
  /** Tell how tokens were drawn (`drawn` of positions). */
  records_draws: z.boolean().optional(),
})
export type OwnRules = z.infer<typeof ownRulesSchema>

export const samplingParamsSchema = z.strictObject({
  n: z.number().int().positive().default(1),
  temperature: z.number(),
  top_p: z.number(),
  top_k: z.number().int(),
  min_p: z.number(),
  repetition_penalty: z.number(),
  frequency_penalty: z.number(),
  presence_penalty: z.number(),
  /** vLLM's alone: ours is in `extra_args`, for JavaScript reads no integer beyond 2^53. */
  seed: z.number().int().nullable().default(null),
  max_tokens: z.number().int().positive(),
  min_tokens: z.number().int().nonnegative().default(0),
  stop_token_ids: tokenIds.default([]),
  ignore_eos: z.boolean().default(false),
  logprobs: z.number().int().nonnegative().default(0),
  prompt_logprobs: z.number().int().nonnegative().nullable().default(null),
  logprob_token_ids: tokenIds.nullable().default(null),
  logit_bias: z.record(z.string(), z.number()).nullable().default(null),
  allowed_token_ids: tokenIds.nullable().default(null),
  repetition_detection: z
    .strictObject({ min_pattern_size: z.number(), max_pattern_size: z.number(), min_count: z.number() })
    .nullable()
    .default(null),
  /** vLLM's words for a grammar. */
  structured_outputs: z.record(z.string(), z.json()).optional(),
  bad_words: z.array(z.string()).optional(),
  detokenize: z.boolean().optional(),
  extra_args: z.strictObject({ trainyard: ownRulesSchema }).optional(),
})
export type SamplingParams = z.infer<typeof samplingParamsSchema>

export const generateBodySchema = z.strictObject({
  request_id: z.string().min(1),
  token_ids: tokenIds.min(1),
  /** Digest of an adapter; null: the base model. */
  model: z.string().nullable().default(null),
  sampling_params: samplingParamsSchema,
  stream: z.boolean().default(false),
  cache_salt: z.string().nullable().default(null),
  priority: z.number().int().default(0),
})
export type GenerateBody = z.infer<typeof generateBodySchema>

/** A token and how likely it was. */
const wireTokenSchema = z.object({ token_id: tokenId, logprob: z.number(), rank: z.number().nullish() })
export type WireToken = z.infer<typeof wireTokenSchema>

/** vLLM's begin with the sampled token; ours are the alternatives alone. */
const wirePositionSchema = wireTokenSchema.extend({ top_logprobs: z.array(wireTokenSchema).max(2 ** 20) })
export type WirePosition = z.infer<typeof wirePositionSchema>

/** How a token was drawn, of our own engine; absent: plainly. As `DrawRecord` has it. */
const wireDrawSchema = z.object({
  logprob: z.number().max(0).nullable(),
  kept_ids: z.array(tokenId).max(MOST_KEPT_IDS).optional(),
  unmodelled: z.array(z.string().max(LONGEST_UNMODELLED_NAME)).max(MOST_UNMODELLED_NAMES).optional(),
})

export type WireDraw = z.infer<typeof wireDrawSchema>

const wireChoiceSchema = z.object({
  index: z.number().int().nonnegative(),
  token_ids: tokenIds.nullish(),
  logprobs: z
    .object({
      content: z
        .array(wirePositionSchema.extend({ drawn: wireDrawSchema.optional() }))
        .max(MAX_TOKENS)
        .nullish(),
    })
    .nullish(),
  finish_reason: word.nullable(),
  stop_reason: z.union([z.number(), word]).nullish(),
})
export type WireChoice = z.infer<typeof wireChoiceSchema>

/** As the APIs of both have it. */
const wireErrorSchema = z.object({
  message: z.string().max(MAX_MESSAGE),
  code: z.union([word, z.number()]).nullish(),
  param: word.nullish(),
  type: word.nullish(),
  /** Our own: an `ErrorMessage`. */
  trainyard: z.unknown().optional(),
})
export type WireError = z.infer<typeof wireErrorSchema>

/** What a node sends is checked: whose it is may be anybody, and who reads it serves others too. */
export const generateChunkSchema = z
  .object({
    /** vLLM's errors have none. */
    choices: z.array(wireChoiceSchema).max(MAX_CHOICES).optional(),
    /** Our own engine says it first: prompt tokens it knew from before. */
    cached_tokens: z.number().int().nonnegative().optional(),
    /** Positions of the prompt, of our own engine. */
    prompt: z
      .array(wirePositionSchema.extend({ position: z.number().int().nonnegative(), rank: z.number() }))
      .max(MAX_TOKENS)
      .optional(),
    error: wireErrorSchema.optional(),
  })
  .refine(({ choices, error }) => choices !== undefined || error !== undefined)
export type GenerateChunk = z.infer<typeof generateChunkSchema>

/** vLLM's answer to a request that reports its prompt: it has no stream of those. */
export const generateWholeSchema = z.object({
  choices: z.array(wireChoiceSchema).max(MAX_CHOICES),
  /** By position, then by token id; nothing before the first. */
  prompt_logprobs: z
    .array(
      atMost(z.record(z.string(), z.object({ logprob: z.number(), rank: z.number().nullish() })), 2 ** 20).nullable(),
    )
    .max(MAX_TOKENS)
    .nullish(),
})
export type GenerateWhole = z.infer<typeof generateWholeSchema>
