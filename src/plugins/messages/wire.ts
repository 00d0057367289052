/**
 * Messages, Anthropic's format: request fields, the answer and its blocks. The events of a stream are written by
 * `message-stream.ts`.
 *
 * Samplers beyond Anthropic's are those of chat. Which values are honoured is checked by
 * `message-request.ts`.
 * Source: Anthropic's reference of the Messages API; field names of answers as its SDKs type them (TypeScript 1.14, Python 2.14).
 */
import { z } from 'zod'
import { chatRequestSchema, SCHEMA_VIOLATIONS, schemaViolationsSchema } from '#contract/wire/chat-completions.js'
import { laxBoolean, laxInteger } from '#contract/wire/lax.js'
import { byBody, label, MAX_LIST, text, word } from '#contract/wire/maxima.js'
import { samplingRecordSchema } from '#contract/wire/sampling-record.js'

const unchecked = () => byBody(z.unknown()).optional()
const loose = () => byBody(z.looseObject({}))

/** What is read of a block, whatever its type; `signature`, `citations` and `caller` come back from answers and say nothing. */
const blockFields = {
  type: word(),
  text: unchecked(),
  thinking: unchecked(),
  signature: unchecked(),
  data: unchecked(),
  id: unchecked(),
  name: unchecked(),
  input: unchecked(),
  caller: unchecked(),
  tool_use_id: unchecked(),
  is_error: unchecked(),
  citations: unchecked(),
  source: unchecked(),
}
const innerBlockSchema = z.object({ ...blockFields, content: unchecked() })
const textBlocks = () => z.union([text(), z.array(innerBlockSchema).max(MAX_LIST)])
const blockSchema = z.object({
  ...blockFields,
  /** Of a tool's result. */
  content: textBlocks().nullish(),
})
export type InputBlock = z.infer<typeof blockSchema>

export const inputMessageSchema = z.object({
  role: word(),
  content: z.union([text(), z.array(blockSchema).max(MAX_LIST)]),
})
export type InputMessage = z.infer<typeof inputMessageSchema>

const toolSchema = z.object({
  type: word().nullish(),
  name: label(),
  description: text().nullish(),
  input_schema: loose().nullish(),
  strict: laxBoolean().nullish(),
})

/** What makes the prompt. */
const promptFields = {
  model: label(),
  messages: z.array(inputMessageSchema).max(MAX_LIST),
  system: textBlocks().nullish(),
  tools: z.array(toolSchema).max(MAX_LIST).nullish(),
  tool_choice: z
    .object({ type: word(), name: label().nullish(), disable_parallel_tool_use: laxBoolean().nullish() })
    .nullish(),
  thinking: z.object({ type: word(), budget_tokens: unchecked(), display: unchecked() }).nullish(),
  output_config: z
    .object({ effort: word().nullish(), format: byBody(z.looseObject({ type: word() })).nullish() })
    .nullish(),
  chat_template_kwargs: chatRequestSchema.shape.chat_template_kwargs,
}

export const countMessageTokensRequestSchema = z.object(promptFields)
export type CountMessageTokensRequest = z.infer<typeof countMessageTokensRequestSchema>

export const messageRequestSchema = chatRequestSchema
  .pick({
    temperature: true,
    top_p: true,
    top_k: true,
    min_p: true,
    seed: true,
    frequency_penalty: true,
    presence_penalty: true,
    repetition_penalty: true,
    min_tokens: true,
    ignore_eos: true,
    request_id: true,
    stream: true,
  })
  .extend({
    ...promptFields,
    max_tokens: laxInteger(),
    stop_sequences: z.array(label()).max(MAX_LIST).nullish(),
    metadata: z.object({ user_id: label().nullish() }).nullish(),
    service_tier: word().nullish(),
    speed: word().nullish(),
    /** A conversation that a server would hold: none is held here. */
    thread: z.object({ type: word(), previous_message_id: label().nullish() }).nullish(),
    container: unchecked(),
    mcp_servers: z.array(loose()).max(MAX_LIST).nullish(),
  })
export type MessageRequest = z.infer<typeof messageRequestSchema>

export const outputBlockSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string(), citations: z.null() }),
  z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() }),
  z.object({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    input: z.json(),
    caller: z.object({ type: z.literal('direct') }),
  }),
])
export type OutputBlock = z.infer<typeof outputBlockSchema>

export const messageUsageSchema = z.object({
  /** Tokens of the prompt that were computed: without those that were cached. */
  input_tokens: z.number().int(),
  cache_creation_input_tokens: z.number().int(),
  cache_read_input_tokens: z.number().int(),
  output_tokens: z.number().int(),
  output_tokens_details: z.object({ thinking_tokens: z.number().int() }),
  cache_creation: z.null(),
  inference_geo: z.null(),
  server_tool_use: z.null(),
  service_tier: z.literal('standard'),
  speed: z.null(),
})

export const stopReasonSchema = z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use'])
export type StopReason = z.infer<typeof stopReasonSchema>

export const messageSchema = z.object({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(outputBlockSchema),
  stop_reason: stopReasonSchema.nullable(),
  stop_sequence: z.string().nullable(),
  stop_details: z.null(),
  container: z.null(),
  diagnostics: z.null(),
  usage: messageUsageSchema,
  [SCHEMA_VIOLATIONS]: schemaViolationsSchema,
  /** Of trainable models, once the message has ended: the tokens that were read and written, as training wants them. */
  prompt_token_ids: z.array(z.number().int()).optional(),
  token_ids: z.array(z.number().int()).optional(),
  /** Natural, of each of `token_ids`. */
  logprobs: z.array(z.number()).optional(),
  sampling: samplingRecordSchema.optional(),
})
export type Message = z.infer<typeof messageSchema>

export const messageTokensSchema = z.object({ input_tokens: z.number().int() })
export type MessageTokens = z.infer<typeof messageTokensSchema>

/** How every error of this format looks; `param`, `code` and `hint` are of other formats here. */
export interface MessageErrorBody {
  readonly type: 'error'
  readonly error: {
    readonly type: string
    readonly message: string
    readonly param: string | null
    readonly code: string
    readonly hint?: string
    readonly details?: Readonly<Record<string, unknown>>
  }
  readonly request_id: string
}
