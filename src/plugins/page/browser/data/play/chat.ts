/**
 * Asks for one answer of a model and reports it while it is written. What has come of an answer is kept, however it
 * ends.
 */

import type { ChatChunk } from '#contract/wire/chat-completions.js'
import { shownAs, toSampled } from '#contract/wire/sampling-words.js'
import { isRepeating, REPEATING_CHARACTERS } from '#contract/wire/talk-words.js'
import { ApiError } from '../api-error.js'
import { open } from '../client.js'
import { nowMs } from '../clock.js'
import { readEvents } from '../streams.js'
import { type Answer, type ChatBody, NO_ANSWER, type TokenLogprob, type ToolCall } from './request.js'

type Chunk = Partial<ChatChunk> & { readonly error?: { readonly message?: string; readonly hint?: string | null } }

/**
 * Calls with what there is of the answer, at every part of it. Text that begins to repeat itself is ended there.
 *
 * @throws {ApiError} also when the stream ends before the answer does
 */
export async function streamAnswer(
  body: ChatBody,
  onAnswer: (answer: Answer) => void,
  signal: AbortSignal,
): Promise<void> {
  const json = {
    ...body,
    stream: true,
    stream_options: { include_usage: true },
    // how tokens were drawn is said beside their ids
    ...(body['logprobs'] === true ? { return_token_ids: true } : {}),
  }
  const enough = new AbortController()
  const response = await open('/v1/chat/completions', { signal: AbortSignal.any([signal, enough.signal]), json })
  const logprobs: TokenLogprob[] = []
  let answer: Answer = { ...NO_ANSWER, logprobs }
  let firstMs: number | null = null
  let isWhole = false
  await readEvents(response, (data) => {
    if (isWhole || data === '[DONE]') {
      isWhole = true
      return
    }
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error !== undefined) {
      const { message, hint } = chunk.error
      throw new ApiError(message ?? 'The answer broke off.', { status: 500, hint: hint ?? null })
    }
    const choice = chunk.choices?.[0]
    const added = choice?.delta.content ?? ''
    if (added !== '') firstMs ??= nowMs()
    // answers of trained models bring them unasked
    if (body['logprobs'] === true) {
      for (const entry of toSampled(choice?.logprobs?.content ?? [], choice?.sampling)) logprobs.push(entry)
    }
    const tokens = chunk.usage?.completion_tokens ?? answer.tokens
    const seconds = firstMs === null ? 0 : (nowMs() - firstMs) / 1000
    answer = {
      text: answer.text + added,
      reasoning: answer.reasoning + (choice?.delta.reasoning_content ?? choice?.delta.reasoning ?? ''),
      calls: (choice?.delta.tool_calls ?? []).reduce(withPiece, answer.calls),
      logprobs,
      shownAs: answer.shownAs ?? shownAs(choice?.sampling),
      tokens,
      speed: tokens !== null && seconds > 0.05 ? tokens / seconds : null,
      finish: choice?.finish_reason ?? answer.finish,
      violations: choice?.['x-trainyard-schema-violations'] ?? answer.violations,
      fingerprint: chunk.system_fingerprint ?? answer.fingerprint,
      model: chunk.model ?? answer.model,
    }
    // JSON that is cut is none
    if (body['response_format'] === undefined && isRepeating(answer.text.slice(-REPEATING_CHARACTERS))) {
      answer = { ...answer, finish: 'ended: it began to repeat itself' }
      isWhole = true
      enough.abort()
    }
    onAnswer(answer)
  }).catch((cause: unknown) => {
    if (isWhole) return
    // a refusal inside of the stream, or the reader's own hand
    if (cause instanceof ApiError || signal.aborted) throw cause
    throw cutOff()
  })
  if (!isWhole) throw cutOff()
}

function cutOff(): ApiError {
  return new ApiError('The connection was cut in the middle of the answer: what came is kept.', {
    status: 0,
    hint: 'see whether trainyard serve still runs, then send it again',
  })
}

type Piece = NonNullable<ChatChunk['choices'][number]['delta']['tool_calls']>[number]

/** The first piece of a call has its id and name, and each a part of its arguments. */
function withPiece(calls: readonly ToolCall[], piece: Piece): readonly ToolCall[] {
  const before = calls[piece.index] ?? { id: '', type: 'function' as const, function: { name: '', arguments: '' } }
  const next = [...calls]
  next[piece.index] = {
    id: piece.id ?? before.id,
    type: 'function',
    function: {
      name: piece.function.name ?? before.function.name,
      arguments: before.function.arguments + (piece.function.arguments ?? ''),
    },
  }
  return next
}
