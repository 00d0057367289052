/**
 * Text and tokens without generation: `/tokenize`, `/detokenize` and `/tokenizer_info` in vLLM's shapes (v0.17),
 * `/apply-template` in llama.cpp's.
 */
import { z } from 'zod'
import { chatRequestSchema } from '../chat-completions.js'
import { laxBoolean, laxInteger } from '../lax.js'
import { label, MAX_TOKEN_IDS, text } from '../maxima.js'

const conversationFields = chatRequestSchema.pick({
  model: true,
  tools: true,
  documents: true,
  reasoning_effort: true,
  add_generation_prompt: true,
  continue_final_message: true,
  add_special_tokens: true,
  chat_template: true,
  chat_template_kwargs: true,
})

/** A prompt as it is (`prompt`), or a conversation for the chat template (`messages`). */
export const tokenizeRequestSchema = conversationFields.extend({
  prompt: text().nullish(),
  messages: chatRequestSchema.shape.messages.nullish(),
  return_token_strs: laxBoolean().nullish(),
})
export type TokenizeRequest = z.infer<typeof tokenizeRequestSchema>

export const tokenizeResponseSchema = z.object({
  count: z.number().int(),
  max_model_len: z.number().int(),
  tokens: z.array(z.number().int()),
  /** How the vocabulary spells each token. */
  token_strs: z.array(z.string()).nullable(),
})
export type TokenizeResponse = z.infer<typeof tokenizeResponseSchema>

export const detokenizeRequestSchema = z.object({
  model: label().nullish(),
  tokens: z.array(laxInteger({ min: 0 })).max(MAX_TOKEN_IDS),
})
export type DetokenizeRequest = z.infer<typeof detokenizeRequestSchema>

export const applyTemplateRequestSchema = conversationFields.extend({ messages: chatRequestSchema.shape.messages })
export type ApplyTemplateRequest = z.infer<typeof applyTemplateRequestSchema>

/** Answer of `/detokenize` and `/apply-template`. */
export const promptResponseSchema = z.object({ prompt: z.string() })
export type PromptResponse = z.infer<typeof promptResponseSchema>

/** What harnesses need of a tokenizer that they reach over HTTP. */
export const tokenizerInfoResponseSchema = z.object({
  model: z.string(),
  bos_token: z.string().nullable(),
  eos_token: z.string().nullable(),
  vocab_size: z.number().int(),
  model_max_length: z.number().int(),
  chat_template: z.string().nullable(),
})
export type TokenizerInfoResponse = z.infer<typeof tokenizerInfoResponseSchema>
