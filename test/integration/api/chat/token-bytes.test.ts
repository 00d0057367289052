/**
 * Log-probabilities of tokens that are parts of a character, a byte a token here: each has its own bytes, and none stands for another.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatResponse, ChoiceLogprobs } from '#contract/wire/chat-completions.js'
import type { CompletionResponse } from '#contract/wire/inference/completions.js'
import { chatAnswers } from '../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 0 })
  await service.createModel('bytes')
})
afterAll(() => service.dispose())

const TEXT = 'é€ b'
const writes = { structured_outputs: { choice: [TEXT] } }
const usual = {
  model: 'trainyard/tiny-random',
  messages: [{ role: 'user', content: 'x' }],
  temperature: 0,
  max_tokens: 20,
}
const { both } = chatAnswers(() => service, { ...usual, logprobs: true, top_logprobs: 20, return_token_ids: true })

type Entry = NonNullable<ChoiceLogprobs['content']>[number]
const entriesOf = ({ choices }: ChatResponse): readonly Entry[] => choices[0]?.logprobs?.content ?? []
const bytesOf = (entries: readonly Entry[]): Buffer => Buffer.from(entries.flatMap(({ bytes }) => bytes ?? []))

describe('chat', () => {
  it('the bytes of all tokens are those of the text, whole and streamed; the character comes with its last part', async () => {
    const entries = entriesOf(await both(writes)).slice(0, -1)
    expect(bytesOf(entries).toString('utf8')).toBe(TEXT)
    expect(entries.map(({ token }) => token)).toEqual(['', 'é', '', '', '€', ' ', 'b'])
    expect(entries.every(({ bytes }) => bytes?.length === 1)).toBe(true)
  })

  it('alternatives have their own bytes, and are spelled where those are no text', async () => {
    const entries = entriesOf(await both({ ignore_eos: true }))
    const others = entries.flatMap(({ top_logprobs: top }) => top.slice(1))
    const parts = others.filter(({ bytes }) => (bytes?.[0] ?? 0) > 0x7f)
    expect(parts.length).toBeGreaterThan(0)
    for (const { token, bytes } of parts) expect(token).toBe(`\\x${(bytes?.[0] ?? 0).toString(16)}`)
    for (const { top_logprobs: top } of entries) expect(new Set(top.slice(1).map(({ token }) => token)).size).toBe(19)
  })

  it('of trained models have the tokens’ ids, and alternatives as text with their bytes; ids everywhere where asked', async () => {
    const model = 'bytes'
    const [first] = entriesOf(await both({ model, ...writes, structured_outputs: { regex: '[a-c]' } }))
    expect(first?.token).toMatch(/^token_id:\d+$/)
    expect(first?.top_logprobs.map(({ token }) => token).sort()).toEqual(expect.arrayContaining(['a', 'b', 'c']))
    for (const { token, bytes } of first?.top_logprobs ?? []) {
      if (/^[a-c]$/.test(token)) expect(Buffer.from(bytes ?? []).toString()).toBe(token)
    }
    const asked = entriesOf(
      await both({ model, structured_outputs: { regex: '[a-c]' }, return_tokens_as_token_ids: true }),
    )
    for (const { token } of asked[0]?.top_logprobs ?? []) expect(token).toMatch(/^token_id:\d+$/)
    expect(asked[0]?.top_logprobs.map(({ bytes }) => Buffer.from(bytes ?? []).toString())).toEqual(
      expect.arrayContaining(['a', 'b', 'c']),
    )
  })
})

describe('completions', () => {
  it('no two alternatives share a name, echoed prompts too', async () => {
    const json = {
      model: usual.model,
      prompt: 'é x',
      echo: true,
      logprobs: 20,
      max_tokens: 4,
      temperature: 0,
      ignore_eos: true,
    }
    const { status, body } = await service.json<CompletionResponse>('/v1/completions', { json })
    expect(status, JSON.stringify(body)).toBe(200)
    const { tokens = [], top_logprobs: tops = [] } = body.choices[0]?.logprobs ?? {}
    expect(tokens.slice(0, 4).join('')).toBe('é x')
    const names = tops.slice(1).map((top) => Object.keys(top ?? {}))
    for (const [i, each] of names.entries()) {
      expect(each.length).toBeGreaterThanOrEqual(20)
      expect(each).toContain(tokens[i + 1])
    }
    expect(names.flat().some((name) => /^bytes:\\x[89a-f][0-9a-f]$/.test(name))).toBe(true)
  })
})
