/**
 * Shaping answers: logprobs, held-back text, usage.
 */
import { describe, expect, it } from 'vitest'
import type { DeltaEvent, PositionLogprobs } from '#inference/host/protocol.js'
import { createAnswerBuilder, toWireLogprob } from '#service/operations/chat/chat-answer.js'
import type { AnswerOptions } from '#service/operations/chat/chat-request.js'

const IDENTITY = { id: 'chatcmpl-1', createdSeconds: 1, model: 'm', fingerprint: 'f' }
const OPTIONS: AnswerOptions = {
  n: 1,
  role: 'assistant',
  hasLogprobs: false,
  topLogprobs: 0,
  isTokenAsId: false,
  hasTokenIds: false,
  isStream: true,
  includeUsage: false,
  continuousUsage: false,
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
    const wire = toWireLogprob(entry, { isTokenAsId: false, topLogprobs: 3 })
    expect(wire.top_logprobs.map((top) => top.token)).toEqual(['e', 'a', 'b'])
    expect(toWireLogprob(entry, { isTokenAsId: false, topLogprobs: 0 }).top_logprobs).toEqual([])
  })

  it('never hold minus infinity', () => {
    const entry = position(5, Number.NEGATIVE_INFINITY, 'e')
    expect(toWireLogprob(entry, { isTokenAsId: true, topLogprobs: 0 })).toMatchObject({
      token: 'token_id:5',
      logprob: -9999,
      bytes: [101],
    })
  })
})

describe('chunks', () => {
  it('are not sent while text is held back, unless tokens are to be shown or the choice ends', () => {
    const plain = createAnswerBuilder(IDENTITY, OPTIONS)
    expect(plain.chunk(delta({}))).toBeNull()
    expect(plain.chunk(delta({ finishReason: 'stop' }))?.choices[0]).toMatchObject({
      delta: { content: '' },
      finish_reason: 'stop',
      stop_reason: null,
    })
    const withIds = createAnswerBuilder(IDENTITY, { ...OPTIONS, hasTokenIds: true })
    expect(withIds.chunk(delta({}))?.choices[0]?.token_ids).toEqual([1])
    const withLogprobs = createAnswerBuilder(IDENTITY, { ...OPTIONS, hasLogprobs: true })
    expect(withLogprobs.chunk(delta({ logprobs: [position(1, -1, 'x')] }))?.choices[0]?.logprobs?.content).toHaveLength(
      1,
    )
  })

  it('carry a stop reason only with the end', () => {
    const builder = createAnswerBuilder(IDENTITY, OPTIONS)
    expect(builder.chunk(delta({ text: 'a' }))?.choices[0]).not.toHaveProperty('stop_reason')
    expect(builder.chunk(delta({ finishReason: 'stop', stopReason: 'END' }))?.choices[0]?.stop_reason).toBe('END')
  })
})

describe('usage', () => {
  it('counts every generated id of every choice, the prompt once', () => {
    const builder = createAnswerBuilder(IDENTITY, { ...OPTIONS, n: 2 })
    builder.start({ type: 'started', id: 'x', promptTokenIds: [1, 2, 3], cachedTokens: 2 })
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
