/**
 * One chat request sent twice, plain and streamed: the two must say the same, down to log-probabilities, calls and usage.
 */
import { expect } from 'vitest'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import type { TestService } from './create-test-service.js'

const CHAT = '/v1/chat/completions'

export interface ChatAnswers {
  /** The plain answer; the status must be 200. */
  plain(body: object): Promise<ChatResponse>
  /** The chunks of the stream, which must end as streams end. */
  streamed(body: object): Promise<ChatChunk[]>
  /** The plain answer, after checking that the stream of the same request joins to it. */
  both(body: object): Promise<ChatResponse>
}

/** @param base fields of every request */
export function chatAnswers(service: () => TestService, base: object = {}): ChatAnswers {
  async function plain(more: object): Promise<ChatResponse> {
    const { status, body } = await service().json<ChatResponse>(CHAT, { json: { ...base, ...more } })
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }

  async function streamed(more: object): Promise<ChatChunk[]> {
    const response = await service().fetch(CHAT, { json: { ...base, ...more, stream: true } })
    const text = await response.text()
    expect(response.status, text).toBe(200)
    const events = text.split('\n\n').filter((event) => event !== '' && !event.startsWith(':'))
    expect(events.at(-1)).toBe('data: [DONE]')
    return events.slice(0, -1).map((event) => JSON.parse(event.slice('data: '.length)) as ChatChunk)
  }

  async function both(more: object): Promise<ChatResponse> {
    const whole = await plain(more)
    const chunks = await streamed({ ...more, stream_options: { include_usage: true } })
    for (const choice of whole.choices) {
      const own = chunks.flatMap(({ choices }) => choices.filter(({ index }) => index === choice.index))
      expect(joined(own)).toEqual(summary(choice))
      const streamedEntries = own.flatMap(({ logprobs }) => logprobs?.content ?? [])
      for (const [i, entry] of (choice.logprobs?.content ?? []).entries()) {
        // in another batch the same sums may be added up in another order
        expect(Math.abs((streamedEntries[i]?.logprob ?? 0) - entry.logprob)).toBeLessThan(1e-3)
      }
    }
    const { prompt_tokens, completion_tokens, total_tokens } = whole.usage
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens, completion_tokens, total_tokens } })
    return whole
  }

  return { plain, streamed, both }
}

function summary(choice: ChatResponse['choices'][number]): object {
  const { message } = choice
  return {
    role: message.role,
    content: message.content ?? '',
    reasoning: message.reasoning ?? '',
    calls: message.tool_calls.map(({ function: called }) => [called.name, jsonOf(called.arguments)]),
    logprobs: (choice.logprobs?.content ?? []).map(shown),
    tokenIds: choice.token_ids ?? [],
    end: [choice.finish_reason, choice.stop_reason],
  }
}

function joined(pieces: readonly ChatChunk['choices'][number][]): object {
  const calls: { name: string; text: string }[] = []
  for (const { index, function: called } of pieces.flatMap(({ delta }) => delta.tool_calls ?? [])) {
    calls[index] ??= { name: called.name ?? '', text: '' }
    calls[index].text += called.arguments ?? ''
  }
  const last = pieces.at(-1)
  return {
    role: pieces[0]?.delta.role,
    content: pieces.map(({ delta }) => delta.content ?? '').join(''),
    reasoning: pieces.map(({ delta }) => delta.reasoning ?? '').join(''),
    calls: calls.map(({ name, text }) => [name, jsonOf(text)]),
    logprobs: pieces.flatMap(({ logprobs }) => logprobs?.content ?? []).map(shown),
    tokenIds: pieces.flatMap(({ token_ids: ids }) => ids ?? []),
    end: [last?.finish_reason, last?.stop_reason],
  }
}

type Entry = NonNullable<NonNullable<ChatResponse['choices'][number]['logprobs']>['content']>[number]

/** What an entry says but for its numbers. */
function shown({ token, bytes, top_logprobs: top }: Entry): object {
  return { token, bytes, alternatives: top.length }
}

/** Arguments are equal as JSON; cut off they are no JSON and equal as text. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
