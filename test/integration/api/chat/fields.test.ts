/**
 * Fields of a chat request with a real engine host, one by one: what each does, streamed as plain.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1, baseModels: ['trainyard/spark'] })
})
afterAll(() => service.dispose())

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'What is 7 + 5?' }]
const base = { messages, seed: 5, max_tokens: 24, return_token_ids: true }

async function plain(more: object): Promise<ChatResponse> {
  const { status, body } = await service.json<ChatResponse>(CHAT, { json: { ...base, ...more } })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

async function streamed(more: object): Promise<ChatChunk[]> {
  const response = await service.fetch(CHAT, { json: { ...base, stream: true, ...more } })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  const lines = text.split('\n\n').filter((line) => line.startsWith('data: {'))
  return lines.map((line) => JSON.parse(line.slice(6)) as ChatChunk)
}

/** The plain answer, after checking that the same request streams the same. */
async function both(more: object): Promise<ChatResponse> {
  const whole = await plain(more)
  const chunks = await streamed(more)
  for (const choice of whole.choices) {
    const own = chunks.flatMap(({ choices }) => choices.filter(({ index }) => index === choice.index))
    expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(choice.message.content)
    expect(own.flatMap(({ token_ids: ids }) => ids ?? [])).toEqual(choice.token_ids)
    expect(own.at(-1)).toMatchObject({ finish_reason: choice.finish_reason, stop_reason: choice.stop_reason })
  }
  return whole
}

const textOf = (body: ChatResponse, choice = 0): string => body.choices[choice]?.message.content ?? ''
const idsOf = (body: ChatResponse, choice = 0): number[] => body.choices[choice]?.token_ids ?? []

describe('logprob_token_ids', () => {
  it('are reported at every position, behind the most likely ones, with the values those have', async () => {
    const wanted = { temperature: 0, max_tokens: 4, logprobs: true, return_tokens_as_token_ids: true }
    const reference = await both({ ...wanted, top_logprobs: 20 })
    const positions = reference.choices[0]?.logprobs?.content ?? []
    const [first] = positions
    const likely = first?.top_logprobs.map(({ token }) => Number(token.slice('token_id:'.length))) ?? []
    const ids = [likely[7] ?? 0, likely[3] ?? 0, likely[0] ?? 0]
    for (const top of [0, 2]) {
      const body = await both({ ...wanted, top_logprobs: top, logprob_token_ids: [...ids, ids[0]] })
      const found = body.choices[0]?.logprobs?.content ?? []
      expect(found).toHaveLength(positions.length)
      const others = ids.filter((id) => !likely.slice(0, top).includes(id)).map((id) => `token_id:${id}`)
      const tokens = found[0]?.top_logprobs.map(({ token }) => token) ?? []
      expect([...tokens].sort()).toEqual([...likely.slice(0, top).map((id) => `token_id:${id}`), ...others].sort())
      for (const entry of found[0]?.top_logprobs ?? []) {
        expect(entry).toEqual(first?.top_logprobs.find(({ token }) => token === entry.token))
      }
      for (const { top_logprobs: listed } of found) {
        for (const id of ids) expect(listed.map(({ token }) => token)).toContain(`token_id:${id}`)
      }
    }
  })

  it.each<[object, string]>([
    [{ logprob_token_ids: [1] }, 'when using `logprob_token_ids`, `logprobs` must be set to true.'],
    [{ logprobs: true, logprob_token_ids: [-1] }, 'out-of-vocab'],
    [{ logprobs: true, logprob_token_ids: [4096] }, 'token_id(s) [4096] in logprob_token_ids'],
    [{ logprobs: true, logprob_token_ids: Array.from({ length: 129 }, (_, i) => i) }, 'at most 128 ids, got 129'],
    [
      { logprobs: true, logprob_token_ids: [1], use_beam_search: true, n: 2 },
      'cannot be combined with use_beam_search',
    ],
  ])('%o is refused', async (more, message) => {
    for (const stream of [false, true]) {
      const { status, body } = await service.json<{ error: { message: string } }>(CHAT, {
        json: { ...base, stream, ...more },
      })
      expect([status, body.error.message]).toEqual([400, expect.stringContaining(message)])
    }
  })
})

describe('bad_words', () => {
  it('are not written, alone or as a sequence of tokens', async () => {
    const greedy = await both({ temperature: 0 })
    const [word] = /\w+/.exec(textOf(greedy)) ?? ['']
    expect(word).not.toBe('')
    const without = await both({ temperature: 0, bad_words: [word] })
    expect(textOf(without)).not.toContain(word)
    // a sequence of tokens: its last one is forbidden behind the others only
    const digits = {
      temperature: 0,
      allowed_token_ids: [...'12'].map((digit) => idsOf(greedy)[textOf(greedy).indexOf(digit)]),
    }
    expect(textOf(await both({ ...digits, max_tokens: 8, bad_words: ['12'] }))).not.toContain('12')
  })
})

describe('repetition_detection', () => {
  const stuck = { temperature: 0, ignore_eos: true, max_tokens: 60 }
  it('ends an answer that repeats itself', async () => {
    // one token for ever
    const endless = { ...stuck, allowed_token_ids: [40] }
    expect((await both(endless)).choices[0]).toMatchObject({ finish_reason: 'length', stop_reason: null })
    const nested = { repetition_detection: { max_pattern_size: 4, min_pattern_size: 0, min_count: 5 } }
    const flat = { max_repetition_pattern_size: 4, repetition_min_count: 5 }
    for (const form of [nested, flat]) {
      const body = await both({ ...endless, ...form })
      expect(body.choices[0]).toMatchObject({ finish_reason: 'repetition', stop_reason: 'repetition_detected' })
      expect(idsOf(body)).toEqual([40, 40, 40, 40, 40])
    }
    expect(idsOf(await both({ ...endless, ...nested, min_tokens: 9 }))).toHaveLength(9)
  })
})

describe('logit_bias', () => {
  it('takes pairs, with texts and with false', async () => {
    const greedy = await both({ temperature: 0, max_tokens: 1 })
    const [first] = idsOf(greedy)
    const forbidden = await both({ temperature: 0, max_tokens: 1, logit_bias: [[first, false]] })
    expect(idsOf(forbidden)).not.toContain(first)
    const forced = await both({ temperature: 0, max_tokens: 6, logit_bias: [['q', 100]] })
    expect(textOf(forced)).toBe('qqqqqq')
    expect(
      textOf(
        await both({
          temperature: 0,
          max_tokens: 6,
          logit_bias: [
            ['q', 100],
            ['q', false],
          ],
        }),
      ),
    ).not.toContain('q')
  })
})

describe('DRY and XTC', () => {
  const prompt = { messages: [{ role: 'user', content: 'abc abc abc abc' }] }
  it('a repetition that would go on for ever ends', async () => {
    const ids = idsOf(await plain({ ...prompt, temperature: 0, max_tokens: 4 }))
    // two tokens only, and no way out but DRY
    const pair = { temperature: 0, ignore_eos: true, max_tokens: 16, allowed_token_ids: [ids[0], (ids[0] ?? 0) + 1] }
    const without = idsOf(await both(pair))
    const dry = { dry_multiplier: 5, dry_base: 1.75, dry_allowed_length: 2, dry_sequence_breakers: [] }
    const withDry = idsOf(await both({ ...pair, ...dry }))
    expect(withDry).not.toEqual(without)
    expect(idsOf(await both({ ...pair, engine_xargs: { dry_multiplier: 5, dry_sequence_breakers: [] } }))).toEqual(
      withDry,
    )
    expect(idsOf(await both({ ...pair, vllm_xargs: { dry_multiplier: 5, dry_sequence_breakers: [] } }))).toEqual(
      withDry,
    )
    expect(idsOf(await both({ ...pair, dry_multiplier: 0 }))).toEqual(without)
  })

  it('XTC takes another way, the same for the same seed', async () => {
    const hot = { temperature: 4 }
    const xtc = { ...hot, xtc_probability: 1, xtc_threshold: 0.001 }
    const answers = await both(xtc)
    expect(textOf(answers)).not.toBe(textOf(await both(hot)))
    expect(textOf(await both(xtc))).toBe(textOf(answers))
    expect(textOf(await both({ ...xtc, xtc_threshold: 0.6 }))).toBe(textOf(await both(hot)))
  })

  it('extra arguments that nobody reads change nothing', async () => {
    expect(textOf(await both({ engine_xargs: { a: 1, b: 'x', c: [1, 'y'] } }))).toBe(textOf(await both({})))
  })
})

describe('echo', () => {
  const open = { role: 'assistant', content: 'Well, ' }
  const continued = { messages: [...messages, open], continue_final_message: true, add_generation_prompt: false }

  it('begins the answer with the last message where its role is the answer’s', async () => {
    const answer = await both(continued)
    const echoed = await both({ ...continued, echo: true })
    expect(textOf(echoed)).toBe(`Well, ${textOf(answer)}`)
    expect(idsOf(echoed)).toEqual(idsOf(answer))
    expect(echoed.usage).toMatchObject({ completion_tokens: answer.usage.completion_tokens })
    const [role, echo] = await streamed({ ...continued, echo: true })
    expect(role?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect(echo?.choices[0]?.delta).toEqual({ content: 'Well, ' })
  })

  it('does nothing after another role, and every choice has it', async () => {
    expect(textOf(await both({ echo: true }))).toBe(textOf(await both({})))
    const several = await both({ ...continued, echo: true, n: 3 })
    expect(several.choices.map(({ message }) => message.content?.startsWith('Well, '))).toEqual([true, true, true])
  })
})

describe('prompt_logprobs', () => {
  it('say how likely each prompt token was, as continuing from the prompt before it does', async () => {
    const body = await plain({ prompt_logprobs: 3, temperature: 0 })
    const ids = body.prompt_token_ids ?? []
    const positions = body.prompt_logprobs ?? []
    expect(positions).toHaveLength(ids.length)
    expect(positions[0]).toBeNull()
    for (const [i, position] of positions.entries()) {
      if (position === null) continue
      const own = position[String(ids[i])]
      const ranked = Object.values(position).sort((a, b) => b.logprob - a.logprob)
      expect(own).toBeDefined()
      expect(Object.keys(position).length).toBe((own?.rank ?? 0) <= 3 ? 3 : 4)
      expect(ranked.slice(0, 3).map(({ rank }) => rank)).toEqual([1, 2, 3])
      expect(ranked[0]?.logprob).toBeLessThanOrEqual(0)
    }
    // the answer itself, put into the prompt, is as likely there as when it was sampled
    const answer = await plain({ temperature: 0, logprobs: true, max_tokens: 2 })
    const said = { role: 'assistant', content: textOf(answer) }
    const again = await plain({
      messages: [...messages, said],
      continue_final_message: true,
      add_generation_prompt: false,
      prompt_logprobs: 0,
      max_tokens: 1,
    })
    const sampled = answer.choices[0]?.logprobs?.content ?? []
    const whole = again.prompt_token_ids ?? []
    expect(whole.slice(-2)).toEqual(idsOf(answer))
    for (const [i, entry] of sampled.entries()) {
      const at = whole.length - 2 + i
      const known = again.prompt_logprobs?.[at]?.[String(whole[at])]?.logprob ?? 0
      expect(Math.abs(known - entry.logprob)).toBeLessThan(1e-3)
    }
    expect(again.usage.prompt_tokens_details?.cached_tokens).toBe(0)
  })

  it('come with an echo that has log-probabilities, and not unasked', async () => {
    const said = [...messages, { role: 'assistant', content: 'Well, ' }]
    const more = { messages: said, continue_final_message: true, add_generation_prompt: false, echo: true }
    expect((await plain({ ...more, logprobs: true, top_logprobs: 2 })).prompt_logprobs).not.toBeNull()
    expect((await plain(more)).prompt_logprobs).toBeNull()
    expect((await plain({})).prompt_logprobs).toBeNull()
  })

  it('0 with a stream passes', async () => {
    expect((await streamed({ prompt_logprobs: 0 })).length).toBeGreaterThan(1)
  })
})

describe('truncate_prompt_tokens', () => {
  it('keeps the last tokens of the prompt, and counts those', async () => {
    const whole = (await plain({ max_tokens: 1 })).prompt_token_ids ?? []
    for (const kept of [1, 5, whole.length, whole.length + 9]) {
      const body = await both({ max_tokens: 2, truncate_prompt_tokens: kept })
      const expected = whole.slice(-kept)
      expect(body.prompt_token_ids).toEqual(expected)
      expect(body.usage.prompt_tokens).toBe(expected.length)
    }
    expect((await both({ max_tokens: 2, truncate_prompt_tokens: -1 })).prompt_token_ids).toEqual(whole)
  })

  it('-1 makes room for the answer, and what cannot be is refused', async () => {
    const long = [{ role: 'user', content: 'word '.repeat(4000) }]
    const { usage } = await plain({ messages: long, max_tokens: 8, truncate_prompt_tokens: -1 })
    const refused = async (more: object) => {
      const { status, body } = await service.json<{ error: { message: string } }>(CHAT, { json: { ...base, ...more } })
      return [status, body.error.message]
    }
    const limit = usage.prompt_tokens
    expect(await refused({ messages: long, max_tokens: 8 })).toEqual([
      400,
      expect.stringContaining('maximum context length'),
    ])
    expect(await refused({ max_tokens: 8, truncate_prompt_tokens: limit + 1 })).toEqual([
      400,
      `truncate_prompt_tokens=${limit + 1} cannot be greater than max_model_len - max_completion_tokens = ${limit}. Please request a smaller truncation size.`,
    ])
    expect(await refused({ truncate_prompt_tokens: 0 })).toEqual([400, expect.stringContaining('at least 1')])
    expect(await refused({ truncate_prompt_tokens: -2 })).toEqual([400, expect.stringContaining('greater_than_equal')])
  })
})

describe('use_beam_search', () => {
  const beams = { use_beam_search: true, n: 4, temperature: 0, logprobs: true, max_tokens: 12 }
  const scoreOf = (body: ChatResponse, choice: number, lengthPenalty: number): number => {
    const entries = body.choices[choice]?.logprobs?.content ?? []
    return entries.reduce((sum, { logprob }) => sum + logprob, 0) / entries.length ** lengthPenalty
  }

  it.each([1, 0])('gives different answers, best first, length_penalty %d', async (lengthPenalty) => {
    const body = await both({ ...beams, length_penalty: lengthPenalty })
    const scores = body.choices.map((_, choice) => scoreOf(body, choice, lengthPenalty))
    expect(scores).toEqual([...scores].sort((a, b) => b - a))
    expect(new Set(body.choices.map(({ token_ids: ids }) => String(ids))).size).toBe(4)
    expect(body.usage.completion_tokens).toBe(
      body.choices.reduce((sum, choice) => sum + (choice.token_ids ?? []).length, 0),
    )
  })

  it('of one beam is the greedy answer', async () => {
    expect(textOf(await both({ ...beams, n: 1 }))).toBe(textOf(await both({ temperature: 0, max_tokens: 12 })))
  })
})

describe('timings', () => {
  it('are sent when they are asked for', async () => {
    expect(await plain({})).not.toHaveProperty('timings')
    const { timings, usage } = await plain({ timings: true })
    expect(timings).toMatchObject({ predicted_n: usage.completion_tokens })
    expect((timings?.cache_n ?? 0) + (timings?.prompt_n ?? 0)).toBe(usage.prompt_tokens)
    expect(timings?.predicted_ms).toBeGreaterThan(0)
    expect(timings?.predicted_per_second).toBeCloseTo(
      (1000 * usage.completion_tokens) / (timings?.predicted_ms ?? 1),
      3,
    )
    const atEnd = await streamed({ timings: true })
    expect(atEnd.filter((chunk) => chunk.timings !== undefined)).toEqual([atEnd.at(-1)])
    const each = await streamed({ timings_per_token: true })
    expect(each.every((chunk) => chunk.timings !== undefined)).toBe(true)
  })
})
