/**
 * Completions, the older of OpenAI's two formats, in vLLM's dialect: a prompt of text or tokens that no chat template sees.
 *
 * Sampling fields are those of chat. `logprobs` is a number here and has the older shape. Ranges and combinations are checked
 * by `service/operations/generation/completions/completion-request.ts`.
 * Source: OpenAI's reference of the legacy completions endpoint; vLLM's additions to it (v0.17).
 */
import { z } from 'zod'
import { chatRequestSchema, promptLogprobsSchema, usageSchema } from '../chat-completions.js'
import { laxBoolean, laxInteger } from '../lax.js'
import { byBody, text } from '../maxima.js'
import { samplingRecordSchema } from '../sampling-record.js'

/** One prompt: text, or token ids. */
export type CompletionPrompt = string | readonly number[]

/** A text, token ids, or a list of either. */
const promptSchema = byBody(z.unknown()).transform((value, context): readonly CompletionPrompt[] => {
  const refuse = (type: string, message: string): never => {
    context.addIssue({ code: 'custom', message, params: { type } })
    return z.NEVER
  }
  if (typeof value === 'string') return [value]
  if (value === undefined || value === null) return refuse('missing', 'Field required')
  if (!Array.isArray(value)) return refuse('list_type', 'Input should be a text, token ids, or a list of either')
  const list: readonly unknown[] = value
  if (list.length === 0) return refuse('too_short', 'Input should have at least one prompt')
  if (isTokenIds(list)) return [list]
  if (list.every((part): part is string => typeof part === 'string')) return list
  if (list.every((part): part is readonly number[] => Array.isArray(part) && isTokenIds(part))) return list
  return refuse('list_type', 'Input should be a text, token ids, or a list of either, not a mixture')
})

function isTokenIds(list: readonly unknown[]): list is readonly number[] {
  return list.every((id) => typeof id === 'number' && Number.isInteger(id))
}

export const completionRequestSchema = chatRequestSchema
  .omit({
    messages: true,
    logprobs: true,
    top_logprobs: true,
    max_completion_tokens: true,
    tools: true,
    tool_choice: true,
    parallel_tool_calls: true,
    reasoning_effort: true,
    include_reasoning: true,
    add_generation_prompt: true,
    continue_final_message: true,
    documents: true,
    chat_template: true,
    chat_template_kwargs: true,
    timings: true,
    timings_per_token: true,
  })
  .extend({
    prompt: promptSchema,
    suffix: text().nullish(),
    best_of: laxInteger().nullish(),
    logprobs: laxInteger().nullish(),
    echo: laxBoolean().nullish(),
  })
export type CompletionRequest = z.infer<typeof completionRequestSchema>

const nullableNumbers = z.array(z.number().nullable())

/** One list per fact, all as long as there are tokens. */
export const completionLogprobsSchema = z.object({
  tokens: z.array(z.string()),
  /** Null for the first token of an echoed prompt: nothing is before it. */
  token_logprobs: nullableNumbers,
  /** Alternatives by their text, the token itself among them. */
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
  /** Where the token begins in the text, characters. */
  text_offset: z.array(z.number().int()),
})
export type CompletionLogprobs = z.infer<typeof completionLogprobsSchema>

export const completionChoiceSchema = z.object({
  index: z.number().int(),
  text: z.string(),
  logprobs: completionLogprobsSchema.nullable(),
  finish_reason: z.string().nullable(),
  stop_reason: z.union([z.string(), z.number()]).nullable(),
  token_ids: z.array(z.number().int()).nullable(),
  prompt_token_ids: z.array(z.number().int()).nullable(),
  sampling: samplingRecordSchema.optional(),
  prompt_logprobs: promptLogprobsSchema.nullable(),
})
export type CompletionChoice = z.infer<typeof completionChoiceSchema>

export const completionResponseSchema = z.object({
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.number().int(),
  model: z.string(),
  choices: z.array(completionChoiceSchema),
  service_tier: z.null(),
  /** As in a chat answer: what produced it. */
  system_fingerprint: z.string().nullable(),
  usage: usageSchema,
  kv_transfer_params: z.null(),
})
export type CompletionResponse = z.infer<typeof completionResponseSchema>

export const completionChunkSchema = z.object({
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.number().int(),
  model: z.string(),
  system_fingerprint: z.string().nullable(),
  choices: z.array(
    completionChoiceSchema
      .pick({ index: true, text: true, logprobs: true, finish_reason: true, stop_reason: true, sampling: true })
      .extend({
        token_ids: z.array(z.number().int()).nullable().optional(),
        prompt_token_ids: z.array(z.number().int()).nullable().optional(),
      }),
  ),
  usage: usageSchema.optional(),
})
export type CompletionChunk = z.infer<typeof completionChunkSchema>
