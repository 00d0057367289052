/**
 * Chat completions in vLLM's dialect of the OpenAI format: every published request field, typed in pydantic's lax mode.
 *
 * Unknown fields are dropped, null is absent. Ranges and combinations are checked by
 * `service/operations/generation/chat/chat-request.ts`, which words its errors as vLLM does; this file only knows types.
 * Source: the OpenAI chat API and vLLM's additions to it (v0.17).
 */
import { z } from 'zod'
import { MEDIA_PARTS, TEXT_PART_FIELDS } from '#base/content-parts.js'
import { isExactNumber } from '#base/json/exact-number.js'
import { laxBoolean, laxInt64, laxInteger, laxNumber } from './lax.js'
import { atMost, byBody, label, MAX_LIST, MAX_TOKEN_IDS, text, word } from './maxima.js'
import { samplingRecordSchema } from './sampling-record.js'

/** Top-level fields whose integers need more than 53 bits: the JSON reader keeps their digits. */
export const CHAT_INT64_FIELDS = ['seed', 'truncate_prompt_tokens'] as const

/** As published: int64's bounds as a double has them. */
const SEED_BOUND = 9_223_372_036_854_776_000n
/** How hard a model thinks, by all names that OpenAI's models have; templates know the middle ones. `none`: not at all. */
export const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const

/** An object that is read later, if at all. */
const loose = () => byBody(z.looseObject({}))
const unchecked = () => byBody(z.unknown()).optional()
/** The names are said, not checked here: any other is 501, as vLLM answers it. */
const partType = () => unchecked().meta({ enum: [...Object.keys(TEXT_PART_FIELDS), ...MEDIA_PARTS, null] })
const mediaFields = Object.fromEntries(MEDIA_PARTS.map((name) => [name, unchecked()])) as Record<
  (typeof MEDIA_PARTS)[number],
  ReturnType<typeof unchecked>
>

const contentPartSchema = z.union([
  text(),
  z.object({ type: partType(), text: unchecked(), refusal: unchecked(), thinking: unchecked(), ...mediaFields }),
])

/** What templates are given of a message; anything else in it is named as ignored. */
const chatMessageSchema = z.object({
  role: word(),
  content: z.union([text(), z.array(contentPartSchema).max(MAX_LIST)]).nullish(),
  name: label().nullish(),
  tool_calls: z.array(loose()).max(MAX_LIST).nullish(),
  tool_call_id: label().nullish(),
  /** A call in OpenAI's earlier form. */
  function_call: unchecked(),
  reasoning: unchecked(),
  reasoning_content: unchecked(),
})

/** An object whose fields nobody checks. A number that keeps its text is none. */
const fields = () =>
  byBody(z.looseObject({}).refine((value) => !isExactNumber(value), 'Invalid input: expected object, received number'))

const functionSchema = byBody(
  z.looseObject({ name: label(), description: text().nullish(), parameters: fields().nullish() }),
)
const functionToolSchema = byBody(z.looseObject({ type: word().nullish(), function: functionSchema }))

/** What is said of OpenAI's tools whose input is free text, wherever they are offered. */
export const CUSTOM_TOOLS =
  'a tool of type "custom" takes free text as its input, and calls here have JSON arguments: offer a tool of type "function" with one parameter of type string, whose "pattern" may hold it'

/** A custom tool is refused in words of its own: it has no function that could be missed. */
const toolSchema = z.preprocess((tool: z.input<typeof functionToolSchema>, context) => {
  const type: unknown = typeof tool === 'object' && tool !== null ? tool.type : undefined
  if (type !== 'custom') return tool
  context.addIssue({ code: 'custom', message: CUSTOM_TOOLS, path: ['type'], input: tool })
  return z.NEVER
}, functionToolSchema)

/** Samplers of llama.cpp beyond vLLM's; also read out of `engine_xargs`. */
const samplerExtensions = {
  dry_multiplier: laxNumber().nullish(),
  dry_base: laxNumber().nullish(),
  dry_allowed_length: laxInteger().nullish(),
  dry_penalty_last_n: laxInteger().nullish(),
  dry_sequence_breakers: z.array(label()).max(MAX_LIST).nullish(),
  xtc_probability: laxNumber().nullish(),
  xtc_threshold: laxNumber().nullish(),
}
/** What stands for options of samplers that are not named: DRY's and XTC's as llama.cpp has them. */
export const SAMPLER_DEFAULTS = {
  length_penalty: 1,
  dry_base: 1.75,
  dry_allowed_length: 2,
  dry_penalty_last_n: -1,
  dry_sequence_breakers: ['\n', ':', '"', '*'],
  xtc_threshold: 0.1,
} as const
export const samplerExtensionsSchema = z.object(samplerExtensions)
export type SamplerExtensions = z.infer<typeof samplerExtensionsSchema>

const extraArgument = z.union([label(), z.number()])
const extraArguments = () =>
  atMost(z.record(z.string(), z.union([extraArgument, z.array(extraArgument).max(MAX_LIST)])), 1000)

const integers = () => z.array(laxInteger()).max(MAX_TOKEN_IDS)

export const chatRequestSchema = z.object({
  messages: z.array(chatMessageSchema).max(MAX_LIST),
  model: label().nullish(),

  frequency_penalty: laxNumber().nullish(),
  presence_penalty: laxNumber().nullish(),
  repetition_penalty: laxNumber().nullish(),
  length_penalty: laxNumber().nullish(),
  temperature: laxNumber().nullish(),
  top_p: laxNumber().nullish(),
  top_k: laxInteger().nullish(),
  min_p: laxNumber().nullish(),
  seed: laxInt64({ min: -SEED_BOUND, max: SEED_BOUND }).nullish(),
  n: laxInteger().nullish(),
  use_beam_search: laxBoolean().nullish(),
  /** Ids to numbers; or, as llama.cpp, a list of `[id or text, number or false]`. */
  logit_bias: z
    .union([
      atMost(z.record(z.string(), laxNumber()), MAX_TOKEN_IDS),
      z.array(byBody(z.array(z.unknown()))).max(MAX_TOKEN_IDS),
    ])
    .nullish(),
  allowed_token_ids: integers().nullish(),
  bad_words: z.array(label()).max(MAX_LIST).nullish(),

  logprobs: laxBoolean().nullish(),
  top_logprobs: laxInteger().nullish(),
  /** vLLM: tokens that are reported at every position, however likely. */
  logprob_token_ids: integers().nullish(),
  prompt_logprobs: laxInteger().nullish(),
  return_tokens_as_token_ids: laxBoolean().nullish(),
  return_token_ids: laxBoolean().nullish(),

  max_tokens: laxInteger().nullish(),
  max_completion_tokens: laxInteger().nullish(),
  min_tokens: laxInteger().nullish(),
  stop: z.union([label(), z.array(label()).max(MAX_LIST)]).nullish(),
  stop_token_ids: integers().nullish(),
  include_stop_str_in_output: laxBoolean().nullish(),
  ignore_eos: laxBoolean().nullish(),
  skip_special_tokens: laxBoolean().nullish(),
  spaces_between_special_tokens: laxBoolean().nullish(),
  truncate_prompt_tokens: laxInt64({ min: -1n }).nullish(),
  repetition_detection: z
    .object({
      max_pattern_size: laxInteger().nullish(),
      min_pattern_size: laxInteger().nullish(),
      min_count: laxInteger().nullish(),
    })
    .nullish(),
  max_repetition_pattern_size: laxInteger().nullish(),
  min_repetition_pattern_size: laxInteger().nullish(),
  repetition_min_count: laxInteger().nullish(),
  ...samplerExtensions,

  stream: laxBoolean().nullish(),
  stream_options: z
    .object({ include_usage: laxBoolean().nullish(), continuous_usage_stats: laxBoolean().nullish() })
    .nullish(),

  tools: z.array(toolSchema).max(MAX_LIST).nullish(),
  tool_choice: z.union([word(), loose()]).nullish(),
  parallel_tool_calls: laxBoolean().nullish(),
  /** Tools and their choice in OpenAI's earlier form, which is answered in that form. */
  functions: z.array(functionSchema).max(MAX_LIST).nullish(),
  function_call: z.union([word(), loose()]).nullish(),
  response_format: byBody(z.looseObject({ type: word() })).nullish(),
  structured_outputs: loose().nullish(),
  /** The same by older names of vLLM, and by those of llama.cpp and Ollama. */
  guided_json: z.union([text(), loose()]).nullish(),
  guided_regex: text().nullish(),
  guided_choice: z.array(text()).max(MAX_LIST).nullish(),
  guided_grammar: text().nullish(),
  grammar: text().nullish(),
  json_schema: loose().nullish(),
  format: z.union([text(), loose()]).nullish(),
  reasoning_effort: z.enum(REASONING_EFFORTS).nullish(),
  include_reasoning: laxBoolean().nullish(),

  echo: laxBoolean().nullish(),
  add_generation_prompt: laxBoolean().nullish(),
  continue_final_message: laxBoolean().nullish(),
  add_special_tokens: laxBoolean().nullish(),
  documents: z.array(fields()).max(MAX_LIST).nullish(),
  chat_template: text().nullish(),
  chat_template_kwargs: loose().nullish(),
  mm_processor_kwargs: loose().nullish(),

  user: label().nullish(),
  priority: laxInteger().nullish(),
  request_id: z.string().max(256).nullish(),
  cache_salt: label().nullish(),
  kv_transfer_params: loose().nullish(),
  engine_xargs: extraArguments().nullish(),
  vllm_xargs: extraArguments().nullish(),

  /** Seconds of silence after which a stream sends a comment; 0 or less: never. Default 15. */
  sse_ping_interval: laxInteger({ max: 3600 }).nullish(),
  timings: laxBoolean().nullish(),
  timings_per_token: laxBoolean().nullish(),
})
export type ChatRequest = z.infer<typeof chatRequestSchema>
/** What a client writes: scalars may also be their texts. */
export type ChatRequestBody = z.input<typeof chatRequestSchema>

const tokenLogprobSchema = z.object({
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(z.number().int()).nullable(),
})

export const choiceLogprobsSchema = z.object({
  content: z.array(tokenLogprobSchema.extend({ top_logprobs: z.array(tokenLogprobSchema) })).nullable(),
  refusal: z.null().optional(),
})
export type ChoiceLogprobs = z.infer<typeof choiceLogprobsSchema>

export const usageSchema = z.object({
  prompt_tokens: z.number().int(),
  total_tokens: z.number().int(),
  completion_tokens: z.number().int(),
  prompt_tokens_details: z.object({ cached_tokens: z.number().int() }).nullable(),
})
export type Usage = z.infer<typeof usageSchema>

/** How long an answer took, in llama.cpp's words: `prompt_*` is the prompt, `predicted_*` the answer, `cache_n` cached tokens. */
export const timingsSchema = z.object({
  cache_n: z.number().int(),
  prompt_n: z.number().int(),
  prompt_ms: z.number(),
  prompt_per_token_ms: z.number(),
  prompt_per_second: z.number(),
  predicted_n: z.number().int(),
  predicted_ms: z.number(),
  predicted_per_token_ms: z.number(),
  predicted_per_second: z.number(),
})
export type Timings = z.infer<typeof timingsSchema>

/** Prompt positions: null for the first, else the alternatives and the token itself by their ids. */
export const promptLogprobsSchema = z.array(
  z
    .record(
      z.string(),
      z.object({ logprob: z.number(), rank: z.number().int().nullable(), decoded_token: z.string().nullable() }),
    )
    .nullable(),
)
export type PromptLogprobs = z.infer<typeof promptLogprobsSchema>

const calledSchema = z.object({ name: z.string(), arguments: z.string() })
const toolCallSchema = z.object({ id: z.string(), type: z.literal('function'), function: calledSchema })

/** A piece of a call: the first one has id, type and name, all have a part of the arguments. */
const toolCallDeltaSchema = z.object({
  index: z.number().int(),
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: calledSchema.partial(),
})

/**
 * What of its schema a finished answer violates, a sentence each: sent where the schema is not strict and says more than an answer can
 * be held to.
 */
export const SCHEMA_VIOLATIONS = 'x-trainyard-schema-violations'
export const schemaViolationsSchema = z.array(z.string()).optional()

export const chatChoiceSchema = z.object({
  index: z.number().int(),
  message: z.object({
    role: z.string(),
    content: z.string().nullable(),
    refusal: z.null(),
    annotations: z.null(),
    audio: z.null(),
    /** The call, where it was asked for by `functions`. */
    function_call: calledSchema.nullable(),
    tool_calls: z.array(toolCallSchema),
    reasoning: z.string().nullable(),
    reasoning_content: z.string().nullable(),
  }),
  logprobs: choiceLogprobsSchema.nullable(),
  finish_reason: z.string().nullable(),
  stop_reason: z.union([z.string(), z.number()]).nullable(),
  token_ids: z.array(z.number().int()).nullable(),
  sampling: samplingRecordSchema.optional(),
  [SCHEMA_VIOLATIONS]: schemaViolationsSchema,
})
export type ChatChoice = z.infer<typeof chatChoiceSchema>

export const chatResponseSchema = z.object({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.number().int(),
  model: z.string(),
  choices: z.array(chatChoiceSchema),
  service_tier: z.null(),
  /** `<checkpoint name or base model>:step<n>:<first 12 digits of the adapter's digest>`: what produced the answer. */
  system_fingerprint: z.string().nullable(),
  usage: usageSchema,
  prompt_logprobs: promptLogprobsSchema.nullable(),
  prompt_token_ids: z.array(z.number().int()).nullable(),
  kv_transfer_params: z.null(),
  timings: timingsSchema.optional(),
})
export type ChatResponse = z.infer<typeof chatResponseSchema>

export const chatChunkSchema = z.object({
  id: z.string(),
  object: z.literal('chat.completion.chunk'),
  created: z.number().int(),
  model: z.string(),
  choices: z.array(
    z.object({
      index: z.number().int(),
      delta: z.object({
        role: z.string().optional(),
        content: z.string().optional(),
        reasoning: z.string().optional(),
        reasoning_content: z.string().optional(),
        tool_calls: z.array(toolCallDeltaSchema).optional(),
        function_call: calledSchema.partial().optional(),
      }),
      logprobs: choiceLogprobsSchema.nullable(),
      finish_reason: z.string().nullable(),
      stop_reason: z.union([z.string(), z.number()]).nullable().optional(),
      token_ids: z.array(z.number().int()).nullable().optional(),
      /** Of the tokens of this chunk. */
      sampling: samplingRecordSchema.optional(),
      [SCHEMA_VIOLATIONS]: schemaViolationsSchema,
    }),
  ),
  system_fingerprint: z.string().nullable().optional(),
  usage: usageSchema.optional(),
  timings: timingsSchema.optional(),
  prompt_token_ids: z.array(z.number().int()).nullable().optional(),
})
export type ChatChunk = z.infer<typeof chatChunkSchema>
export type ChatDelta = ChatChunk['choices'][number]['delta']
