/**
 * Shaping answers: logprobs, held-back text, usage.
 */
import { describe, expect, it, test } from 'vitest'
import type { AnswerFormat, DeltaEvent, PositionLogprobs } from '#inference/host/protocol.js'
import { createAnswerBuilder, toWireLogprob } from '#service/operations/generation/chat/chat-answer.js'
import type { AnswerOptions } from '#service/operations/generation/chat/chat-request.js'

const IDENTITY = { id: 'chatcmpl-1', createdSeconds: 1, model: 'm', fingerprint: 'f' }
const OPTIONS: AnswerOptions = {
  n: 1,
  role: 'assistant',
  hasLogprobs: false,
  topLogprobs: 0,
  logprobTokenIds: [],
  isTokenAsId: false,
  isAlternativeAsId: false,
  isFunctionForm: false,
  hasTokenIds: false,
  isStream: true,
  includeUsage: false,
  continuousUsage: false,
  toolMode: { kind: 'none' },
  includesReasoning: true,
  echo: null,
  hasPromptLogprobs: false,
  timings: 'none',
}
const SAMPLING = { temperature: 0.5, topP: 1, topK: 40, minP: 0 }
const FORMAT: AnswerFormat = { toolFormat: 'hermes', hasReasoning: true }
const build = (options: AnswerOptions, isReasoningOpen = false) => {
  let calls = 0
  const builder = createAnswerBuilder(IDENTITY, options, {
    sampling: SAMPLING,
    format: FORMAT,
    createCallId: () => `call-${calls++}`,
  })
  builder.start({ type: 'started', id: 'x', promptTokenIds: [1, 2, 3], cachedTokens: 2, isReasoningOpen })
  return builder
}
const token = (id: number, logprob: number, text: string) => ({ id, logprob, text, bytes: [...Buffer.from(text)] })
const position = (id: number, logprob: number, text: string, top: PositionLogprobs['top'] = []): PositionLogprobs => ({
  ...token(id, logprob, text),
  top,
})
const delta = (more: Partial<DeltaEvent>): DeltaEvent => ({
  type: 'delta',
  id: 'x',
  choice: 0,
  text: '',
  tokenIds: [1],
  logprobs: [],
  finishReason: null,
  stopReason: null,
  ...more,
})

describe('logprobs', () => {
  it('put the sampled token first, once, and cut to the number asked', () => {
    const entry = position(5, -3, 'e', [token(1, -0.1, 'a'), token(2, -0.2, 'b'), token(5, -3, 'e')])
    const wire = toWireLogprob(entry, {
      isTokenAsId: false,
      isAlternativeAsId: false,
      topLogprobs: 3,
      logprobTokenIds: [],
    })
    expect(wire.top_logprobs.map((top) => top.token)).toEqual(['e', 'a', 'b'])
    expect(
      toWireLogprob(entry, { isTokenAsId: false, isAlternativeAsId: false, topLogprobs: 0, logprobTokenIds: [] })
        .top_logprobs,
    ).toEqual([])
  })

  it('never hold minus infinity', () => {
    const entry = position(5, Number.NEGATIVE_INFINITY, 'e')
    expect(
      toWireLogprob(entry, { isTokenAsId: true, isAlternativeAsId: true, topLogprobs: 0, logprobTokenIds: [] }),
    ).toMatchObject({
      token: 'token_id:5',
      logprob: -9999,
      bytes: [101],
    })
  })
})

describe('chunks', () => {
  it('are not sent while text is held back, unless tokens are to be shown or the choice ends', () => {
    const plain = build(OPTIONS)
    expect(plain.add(delta({}))).toEqual([])
    expect(plain.add(delta({ finishReason: 'stop' }))[0]?.choices[0]).toMatchObject({
      delta: { content: '' },
      finish_reason: 'stop',
      stop_reason: null,
    })
    const withIds = build({ ...OPTIONS, hasTokenIds: true })
    expect(withIds.add(delta({}))[0]?.choices[0]?.token_ids).toEqual([1])
    const withLogprobs = build({ ...OPTIONS, hasLogprobs: true })
    expect(
      withLogprobs.add(delta({ logprobs: [position(1, -1, 'x')] }))[0]?.choices[0]?.logprobs?.content,
    ).toHaveLength(1)
  })

  it('carry a stop reason only with the end', () => {
    const builder = build(OPTIONS)
    expect(builder.add(delta({ text: 'a' }))[0]?.choices[0]).not.toHaveProperty('stop_reason')
    expect(builder.add(delta({ finishReason: 'stop', stopReason: 'END' }))[0]?.choices[0]?.stop_reason).toBe('END')
  })
})

describe('usage', () => {
  it('counts every generated id of every choice, the prompt once', () => {
    const builder = build({ ...OPTIONS, n: 2 })
    builder.add(delta({ tokenIds: [4, 5] }))
    builder.add(delta({ choice: 1, tokenIds: [6], finishReason: 'length' }))
    expect(builder.usage()).toEqual({
      prompt_tokens: 3,
      completion_tokens: 3,
      total_tokens: 6,
      prompt_tokens_details: { cached_tokens: 2 },
    })
  })
})

describe('tool calls and reasoning', () => {
  const TEXT = '<think>hm</think>Sure. <tool_call>\n{"name": "f", "arguments": {"a": 1, "b": "}"}}\n</tool_call>'
  const auto: AnswerOptions = {
    ...OPTIONS,
    hasTokenIds: true,
    toolMode: { kind: 'auto', isParallel: true, names: ['f', 'g'] },
  }
  const play = (options: AnswerOptions, text: string, size: number) => {
    const builder = build(options)
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    const chunks = pieces.flatMap((piece, i) =>
      builder.add(delta({ text: piece, tokenIds: [i], finishReason: i === pieces.length - 1 ? 'stop' : null })),
    )
    return { chunks, message: builder.response().choices[0] }
  }

  it.each([1, 2, 7, 1000])('are the same whole and streamed in pieces of %i characters', (size) => {
    const { chunks, message } = play(auto, TEXT, size)
    expect(message).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: 'Sure. ',
        reasoning: 'hm',
        reasoning_content: 'hm',
        tool_calls: [{ id: 'call-0', type: 'function', function: { name: 'f', arguments: '{"a": 1, "b": "}"}' } }],
      },
    })
    const deltas = chunks.map((chunk) => chunk.choices[0]?.delta ?? {})
    expect(deltas.map((part) => part.content ?? '').join('')).toBe('Sure. ')
    expect(deltas.map((part) => part.reasoning ?? '').join('')).toBe('hm')
    const calls = deltas.flatMap((part) => part.tool_calls ?? [])
    expect(calls.filter((call) => call.id !== undefined)).toMatchObject([
      { index: 0, id: 'call-0', function: { name: 'f' } },
    ])
    expect(calls.map((call) => call.function.arguments ?? '').join('')).toBe('{"a": 1, "b": "}"}')
    expect(chunks.flatMap((chunk) => chunk.choices[0]?.token_ids ?? [])).toEqual(message?.token_ids)
    expect(chunks.map((chunk) => chunk.choices[0]?.finish_reason).filter(Boolean)).toEqual(['tool_calls'])
  })

  it('reasoning is left out when it is not wanted, tokens stay', () => {
    const { chunks, message } = play({ ...auto, includesReasoning: false }, TEXT, 3)
    expect(message?.message.reasoning).toBeNull()
    expect(JSON.stringify(chunks)).not.toContain('reasoning')
    expect(message?.token_ids).toHaveLength(Math.ceil(TEXT.length / 3))
  })

  it('an answer that begins inside a block is reasoning up to its end', () => {
    const builder = build(OPTIONS, true)
    builder.add(delta({ text: 'so</th' }))
    builder.add(delta({ text: 'ink>x', finishReason: 'stop' }))
    expect(builder.response().choices[0]?.message).toMatchObject({ reasoning: 'so', content: 'x' })
  })

  it('a budget that ends the answer is told as length, whatever was called', () => {
    const builder = build(auto)
    builder.add(delta({ text: '<tool_call>{"name": "f", "arguments": {}}</tool_call>', finishReason: 'length' }))
    expect(builder.response().choices[0]?.finish_reason).toBe('length')
  })

  it('without parallel calls the first one stays', () => {
    const two =
      '<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{"name": "g", "arguments": {}}</tool_call>'
    const { message } = play({ ...auto, toolMode: { kind: 'auto', isParallel: false, names: ['f', 'g'] } }, two, 5)
    expect(message?.message.tool_calls.map((call) => call.function.name)).toEqual(['f'])
  })

  it('a required call is read out of a list, a named one is the whole answer', () => {
    const required = play(
      { ...auto, toolMode: { kind: 'required', isParallel: true, names: ['f'] } },
      '[{"name": "f", "parameters": {"a": [1]}}]',
      4,
    )
    expect(required.message).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: null, tool_calls: [{ function: { name: 'f', arguments: '{"a": [1]}' } }] },
    })
    const named = play({ ...auto, toolMode: { kind: 'named', name: 'f' } }, '{"a":1}', 2)
    expect(named.message).toMatchObject({
      finish_reason: 'stop',
      message: { content: '', tool_calls: [{ function: { name: 'f', arguments: '{"a":1}' } }] },
    })
  })
})

test('choices of a whole answer share the ids that their sets may have, and streams keep none of them', () => {
  const answered = (isStream: boolean) => {
    const builder = build({ ...OPTIONS, n: 2, isStream })
    const keptIds = Array.from({ length: 512 }, (_, i) => i)
    for (const [choice, count] of [
      [0, 1953],
      [1, 2],
    ] as const) {
      const drawn = Array(count).fill({ logprob: -1, keptIds, unmodelled: [] })
      builder.add(delta({ choice, tokenIds: Array(count).fill(1), drawn, finishReason: 'length' }))
    }
    return builder.response().choices.map(({ sampling }) => sampling)
  }
  const [first, second] = answered(false)
  expect(first).toMatchObject({ unmodelled: [] })
  expect(first?.kept.ids).toHaveLength(1953 * 512)
  expect(second).toMatchObject({ kept: { counts: [0, 0], ids: [] }, unmodelled: ['top_k'] })
  expect(answered(true)).toEqual([undefined, undefined])
})

describe('a whole answer', () => {
  const finishedBy = (more: Partial<DeltaEvent>) => {
    const builder = build(OPTIONS)
    builder.add(delta({ text: 'a@b.com', ...more }))
    return builder.finished(0)
  }

  it('is one that the model ended: what a stop string or token of the request ended lacks that end', () => {
    expect(finishedBy({ finishReason: 'stop' })).toMatchObject({ content: 'a@b.com', isCut: false })
    expect(finishedBy({ finishReason: 'stop', stopReason: '\n' })).toMatchObject({ content: 'a@b.com', isCut: true })
    expect(finishedBy({ finishReason: 'stop', stopReason: 7 }).isCut).toBe(true)
    expect(finishedBy({ finishReason: 'length' }).isCut).toBe(true)
  })
})
