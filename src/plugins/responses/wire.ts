/**
 * Responses, the newer of OpenAI's formats: items in, items out. Request fields, the response and its items; the events of a
 * stream are written by `response-stream.ts`.
 *
 * Samplers beyond OpenAI's are those of chat. Which values are honoured is checked by
 * `response-request.ts`.
 * Source: OpenAI's reference of the Responses API.
 */
import { z } from 'zod'
import { chatRequestSchema, SCHEMA_VIOLATIONS, schemaViolationsSchema } from '#contract/wire/chat-completions.js'
import { metadataSchema } from '#contract/wire/compatible/metadata.js'
import { laxBoolean, laxInteger } from '#contract/wire/lax.js'
import { byBody, label, MAX_LIST, text, word } from '#contract/wire/maxima.js'
import { samplingRecordSchema } from '#contract/wire/sampling-record.js'

const loose = () => byBody(z.looseObject({}))
const typed = () => byBody(z.looseObject({ type: word() }))

/** An item as clients send it: a message, a call, its output, reasoning, or a reference to any of these. */
export const inputItemSchema = byBody(z.looseObject({ type: word().nullish(), role: word().nullish() }))
export type InputItem = z.infer<typeof inputItemSchema>

export const responseRequestSchema = chatRequestSchema
  .pick({
    model: true,
    temperature: true,
    top_p: true,
    top_k: true,
    min_p: true,
    seed: true,
    frequency_penalty: true,
    presence_penalty: true,
    repetition_penalty: true,
    min_tokens: true,
    stop: true,
    ignore_eos: true,
    parallel_tool_calls: true,
    chat_template_kwargs: true,
    request_id: true,
    stream: true,
    user: true,
  })
  .extend({
    input: z.union([text(), z.array(inputItemSchema).max(MAX_LIST)]).nullish(),
    instructions: text().nullish(),
    previous_response_id: label().nullish(),
    store: laxBoolean().nullish(),
    max_output_tokens: laxInteger().nullish(),
    max_tool_calls: laxInteger().nullish(),
    top_logprobs: laxInteger().nullish(),
    include: z.array(word()).max(MAX_LIST).nullish(),
    metadata: metadataSchema.nullish(),
    tools: z.array(typed()).max(MAX_LIST).nullish(),
    tool_choice: z.union([word(), typed()]).nullish(),
    text: byBody(z.looseObject({ format: typed().nullish(), verbosity: word().nullish() })).nullish(),
    reasoning: byBody(z.looseObject({ effort: word().nullish(), summary: word().nullish() })).nullish(),
    stream_options: byBody(z.looseObject({ include_obfuscation: laxBoolean().nullish() })).nullish(),
    truncation: word().nullish(),
    background: laxBoolean().nullish(),
    conversation: z.union([label(), loose()]).nullish(),
    prompt: loose().nullish(),
    service_tier: word().nullish(),
    safety_identifier: label().nullish(),
    prompt_cache_key: label().nullish(),
  })
export type ResponseRequest = z.infer<typeof responseRequestSchema>

const tokenLogprobSchema = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.number().int()) })

const outputTextSchema = z.object({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.never()),
  logprobs: z.array(tokenLogprobSchema.extend({ top_logprobs: z.array(tokenLogprobSchema) })),
})
export type OutputText = z.infer<typeof outputTextSchema>

const itemStatusSchema = z.enum(['in_progress', 'completed', 'incomplete'])

export const outputItemSchema = z.discriminatedUnion('type', [
  z.object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    status: itemStatusSchema,
    content: z.array(outputTextSchema),
  }),
  z.object({
    id: z.string(),
    type: z.literal('function_call'),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
    status: itemStatusSchema,
  }),
  z.object({
    id: z.string(),
    type: z.literal('reasoning'),
    summary: z.array(z.never()),
    content: z.array(z.object({ type: z.literal('reasoning_text'), text: z.string() })),
    status: itemStatusSchema,
  }),
])
export type OutputItem = z.infer<typeof outputItemSchema>

export const responseUsageSchema = z.object({
  input_tokens: z.number().int(),
  // nothing writes a cache at a price here: 0, which newer clients insist on
  input_tokens_details: z.object({ cached_tokens: z.number().int(), cache_write_tokens: z.literal(0) }),
  output_tokens: z.number().int(),
  output_tokens_details: z.object({ reasoning_tokens: z.number().int() }),
  total_tokens: z.number().int(),
})

export const responseSchema = z.object({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.number().int(),
  completed_at: z.number().int().nullable(),
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
  background: z.literal(false),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  incomplete_details: z.object({ reason: z.string() }).nullable(),
  instructions: z.string().nullable(),
  max_output_tokens: z.number().int().nullable(),
  max_tool_calls: z.number().int().nullable(),
  model: z.string(),
  output: z.array(outputItemSchema),
  parallel_tool_calls: z.boolean(),
  previous_response_id: z.string().nullable(),
  reasoning: z.object({ effort: z.string().nullable(), summary: z.string().nullable() }),
  service_tier: z.literal('default'),
  store: z.boolean(),
  /** As in a chat answer: what produced it. */
  system_fingerprint: z.string().nullable(),
  temperature: z.number(),
  text: z.json(),
  tool_choice: z.json(),
  tools: z.array(z.json()),
  top_logprobs: z.number().int(),
  top_p: z.number(),
  truncation: z.literal('disabled'),
  usage: responseUsageSchema.nullable(),
  [SCHEMA_VIOLATIONS]: schemaViolationsSchema,
  /** Of trainable models, once the response has ended: the tokens that were read and written, as training wants them. */
  token_generations: z
    .array(
      z.object({
        prompt_token_ids: z.array(z.number().int()),
        output_tokens: z.array(z.object({ token_id: z.number().int(), logprob: z.number() })),
        /** Items of the output that these tokens are. */
        output_indices: z.array(z.number().int()),
        sampling: samplingRecordSchema.optional(),
      }),
    )
    .optional(),
  user: z.string().nullable(),
  metadata: metadataSchema,
})
export type Response = z.infer<typeof responseSchema>

export const deletedResponseSchema = z.object({
  id: z.string(),
  object: z.literal('response'),
  deleted: z.literal(true),
})
export type DeletedResponse = z.infer<typeof deletedResponseSchema>

export const getResponseQuerySchema = z.object({ stream: laxBoolean().optional() })

/** Items a response was made from, in order. */
export const inputItemListSchema = z.object({
  object: z.literal('list'),
  data: z.array(z.json()),
  first_id: z.string(),
  last_id: z.string(),
  has_more: z.boolean(),
})
export type InputItemList = z.infer<typeof inputItemListSchema>

export const inputTokensSchema = z.object({
  object: z.literal('response.input_tokens'),
  input_tokens: z.number().int(),
})
export type InputTokens = z.infer<typeof inputTokensSchema>
