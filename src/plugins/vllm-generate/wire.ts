/**
 * `POST /inference/v1/generate`: token ids in, token ids out.
 *
 * Two versions of vLLM name a position differently: older ones `token: "token_id:7"`, newer ones `token_id: 7` with a rank.
 * Positions here have both. Sampling fields are those of completions, below `sampling_params`. Source: vLLM's `disagg` protocol
 * (0.17 and 0.30), and what its clients read.
 */
import { z } from 'zod'
import { promptLogprobsSchema, usageSchema } from '#contract/wire/chat-completions.js'
import { completionRequestSchema } from '#contract/wire/inference/completions.js'
import { laxInteger } from '#contract/wire/lax.js'
import { byBody, label, MAX_TOKEN_IDS } from '#contract/wire/maxima.js'
import { samplingRecordSchema } from '#contract/wire/sampling-record.js'

/**
 * Of which distribution log-probabilities are: the one that tokens were drawn from, or that of the model's logits as they are.
 */
const LOGPROBS_MODES = ['processed_logprobs', 'raw_logprobs'] as const
export type LogprobsMode = (typeof LOGPROBS_MODES)[number]
const loose = () => byBody(z.looseObject({}))
const OUTPUT_MODES = ['tokens', 'text'] as const

const samplingParamsSchema = completionRequestSchema
  .pick({
    n: true,
    temperature: true,
    top_p: true,
    top_k: true,
    min_p: true,
    frequency_penalty: true,
    presence_penalty: true,
    repetition_penalty: true,
    seed: true,
    max_tokens: true,
    min_tokens: true,
    stop: true,
    stop_token_ids: true,
    include_stop_str_in_output: true,
    ignore_eos: true,
    skip_special_tokens: true,
    logit_bias: true,
    allowed_token_ids: true,
    bad_words: true,
    structured_outputs: true,
    logprobs: true,
    prompt_logprobs: true,
  })
  .extend({
    extra_args: z
      .object({ trainyard: z.object({ logprobs_mode: z.enum(LOGPROBS_MODES).nullish() }).nullish() })
      .nullish(),
  })
export type SamplingParams = z.infer<typeof samplingParamsSchema>

export const generateRequestSchema = completionRequestSchema
  .pick({
    model: true,
    request_id: true,
    stream: true,
    stream_options: true,
    cache_salt: true,
    priority: true,
    return_token_ids: true,
    sse_ping_interval: true,
  })
  .extend({
    token_ids: z
      .array(laxInteger({ min: 0 }))
      .min(1)
      .max(MAX_TOKEN_IDS),
    sampling_params: samplingParamsSchema.nullish(),
    output_mode: z.enum(OUTPUT_MODES).nullish(),
    features: loose().nullish(),
    content_parts: z.array(loose()).max(1000).nullish(),
    kv_transfer_params: loose().nullish(),
    ec_transfer_params: loose().nullish(),
  })
export type GenerateRequest = z.infer<typeof generateRequestSchema>

const tokenSchema = z.object({
  /** `token_id:<id>`; of `output_mode` `text` what it adds to the text. */
  token: label(),
  token_id: z.number().int(),
  logprob: z.number(),
  /** 1 for the most likely; null where fewer alternatives were asked for than would tell it. */
  rank: z.number().int().nullable(),
  bytes: z.array(z.number().int()).nullable(),
})
const positionSchema = tokenSchema.extend({
  /** The token itself, then the likeliest others. */
  top_logprobs: z.array(tokenSchema),
})
export type GeneratedToken = z.infer<typeof tokenSchema>
export type GeneratedPosition = z.infer<typeof positionSchema>

const choiceSchema = z.object({
  index: z.number().int(),
  token_ids: z.array(z.number().int()),
  text: z.string().optional(),
  finish_reason: z.string().nullable(),
  stop_reason: z.union([z.string(), z.number()]).nullable(),
  logprobs: z.object({ content: z.array(positionSchema) }).nullable(),
  sampling: samplingRecordSchema.optional(),
})
export type GeneratedChoice = z.infer<typeof choiceSchema>

const shared = {
  request_id: z.string(),
  model: z.string(),
  created: z.number().int(),
  output_mode: z.enum(OUTPUT_MODES),
  logprobs_mode: z.enum(LOGPROBS_MODES),
  prompt_token_ids: z.array(z.number().int()).optional(),
  choices: z.array(choiceSchema),
}

export const generateResponseSchema = z.object({
  ...shared,
  prompt_logprobs: promptLogprobsSchema.optional(),
  usage: usageSchema,
})
export type GenerateResponse = z.infer<typeof generateResponseSchema>

/** A part of a stream; ids and positions are those that are new. */
export const generateChunkSchema = z.object({ ...shared, usage: usageSchema.optional() })
export type GenerateChunk = z.infer<typeof generateChunkSchema>
