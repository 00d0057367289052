/**
 * One answer of a model, as it is written.
 */
import { ApiError, open } from './client.js'
import { nowMs } from './clock.js'
import { readEvents } from './streams.js'

export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface Sampling {
  readonly temperature: number
  readonly top_p: number
  readonly max_tokens: number
  /** Null: another answer every time. */
  readonly seed: number | null
}

/** An answer as far as it has come. */
export interface Answer {
  readonly text: string
  readonly reasoning: string
  readonly tokens: number | null
  /** Per second, from the first text to the last. */
  readonly speed: number | null
  readonly finish: string | null
  /** Which weights answered. */
  readonly fingerprint: string | null
  /** Name of the model, as the server has it. */
  readonly model: string | null
}

export const NO_ANSWER: Answer = {
  text: '',
  reasoning: '',
  tokens: null,
  speed: null,
  finish: null,
  fingerprint: null,
  model: null,
}

interface Chunk {
  readonly model?: string
  readonly system_fingerprint?: string | null
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string | null
      readonly reasoning?: string | null
    }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly completion_tokens?: number } | null
  readonly error?: { readonly message?: string }
}

/** Calls with what there is of the answer, at every part of it. @throws {ApiError} */
export async function streamAnswer(
  request: { readonly model: string; readonly messages: readonly Message[]; readonly sampling: Sampling },
  onAnswer: (answer: Answer) => void,
  signal: AbortSignal,
): Promise<void> {
  const { seed, ...sampling } = request.sampling
  const response = await open('/v1/chat/completions', {
    signal,
    json: {
      model: request.model,
      messages: request.messages,
      ...sampling,
      ...(seed === null ? {} : { seed }),
      stream: true,
      stream_options: { include_usage: true },
    },
  })
  let answer = NO_ANSWER
  let firstMs: number | null = null
  await readEvents(response, (data) => {
    if (data === '[DONE]') return
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error !== undefined) {
      throw new ApiError(chunk.error.message ?? 'The answer broke off.', { status: 500 })
    }
    const choice = chunk.choices?.[0]
    const added = choice?.delta?.content ?? ''
    if (added !== '') firstMs ??= nowMs()
    const tokens = chunk.usage?.completion_tokens ?? answer.tokens
    const seconds = firstMs === null ? 0 : (nowMs() - firstMs) / 1000
    answer = {
      text: answer.text + added,
      reasoning: answer.reasoning + (choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? ''),
      tokens,
      speed: tokens !== null && seconds > 0.05 ? tokens / seconds : null,
      finish: choice?.finish_reason ?? answer.finish,
      fingerprint: chunk.system_fingerprint ?? answer.fingerprint,
      model: chunk.model ?? answer.model,
    }
    onAnswer(answer)
  })
}
