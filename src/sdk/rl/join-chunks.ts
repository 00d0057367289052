/**
 * A streamed answer as the response it would have been without streaming: text, ids, log-probabilities and calls of tools.
 */
import { joinSampling } from '#base/sampling-record.js'
import type { ChatChoice, ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'

/** Joins the chunks of one answer, in order; there is at least one. */
export function joinChunks(chunks: readonly ChatChunk[]): ChatResponse {
  const [first] = chunks
  if (first === undefined) throw new Error('an answer has at least one chunk')
  const parts = chunks.flatMap((chunk) => chunk.choices.filter((choice) => choice.index === 0))
  const content = parts.map((part) => part.delta.content ?? '').join('')
  const logprobs = parts.flatMap((part) => part.logprobs?.content ?? [])
  const sampling = joinSampling(
    parts.map((part) => ({
      logprobs: (part.logprobs?.content ?? []).map(({ logprob }) => logprob),
      sampling: part.sampling,
    })),
  )
  const choice: ChatChoice = {
    index: 0,
    message: {
      role: 'assistant',
      content,
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      tool_calls: joinToolCalls(parts.map((part) => part.delta)),
      reasoning: null,
      reasoning_content: null,
    },
    logprobs: logprobs.length === 0 ? null : { content: logprobs },
    finish_reason: parts.findLast((part) => part.finish_reason !== null)?.finish_reason ?? null,
    stop_reason: parts.findLast((part) => part.finish_reason !== null)?.stop_reason ?? null,
    token_ids: parts.flatMap((part) => part.token_ids ?? []),
    ...(sampling === undefined ? {} : { sampling }),
  }
  const usage = chunks.findLast((chunk) => chunk.usage !== undefined)?.usage
  return {
    id: first.id,
    object: 'chat.completion',
    created: first.created,
    model: first.model,
    choices: [choice],
    service_tier: null,
    system_fingerprint:
      chunks.find((chunk) => typeof chunk.system_fingerprint === 'string')?.system_fingerprint ?? null,
    usage: usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, prompt_tokens_details: null },
    prompt_logprobs: null,
    prompt_token_ids: chunks.find((chunk) => Array.isArray(chunk.prompt_token_ids))?.prompt_token_ids ?? null,
    kv_transfer_params: null,
  }
}

/** Calls arrive in pieces: the first one names the tool, later ones go on with its arguments. */
function joinToolCalls(deltas: readonly unknown[]): ChatChoice['message']['tool_calls'] {
  const calls: { id: string; type: 'function'; function: { name: string; arguments: string } }[] = []
  for (const delta of deltas) {
    for (const piece of (delta as { readonly tool_calls?: readonly ToolCallPiece[] }).tool_calls ?? []) {
      calls[piece.index] ??= { id: piece.id ?? '', type: 'function', function: { name: '', arguments: '' } }
      const call = calls[piece.index]
      if (call === undefined) continue
      call.function.name += piece.function?.name ?? ''
      call.function.arguments += piece.function?.arguments ?? ''
    }
  }
  return calls
}

interface ToolCallPiece {
  readonly index: number
  readonly id?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
}
