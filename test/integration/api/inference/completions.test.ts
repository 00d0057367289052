/**
 * `POST /v1/completions` on the tiny model: every form of prompt, echo and log-probabilities, choices, streams, refusals.
 */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type CompletionChunk,
  type CompletionResponse,
  completionChunkSchema,
  completionResponseSchema,
} from '#contract/wire/inference/completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const BASE = 'trainyard/tiny-random'
let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 0 })
})
afterAll(() => service.dispose())

const PATH = '/v1/completions'
const ask = (json: object) =>
  service.json<CompletionResponse & { error: { message: string; param: string; type: string } }>(PATH, {
    json: { model: BASE, max_tokens: 8, seed: 1, ignore_eos: true, ...json },
  })

async function complete(json: object): Promise<CompletionResponse> {
  const { status, body } = await ask(json)
  expect(status, JSON.stringify(body)).toBe(200)
  return completionResponseSchema.parse(body)
}

async function streamOf(json: object): Promise<CompletionChunk[]> {
  const response = await service.fetch(PATH, {
    json: { model: BASE, max_tokens: 8, seed: 1, ignore_eos: true, stream: true, ...json },
  })
  const lines = (await response.text()).split('\n\n').filter((line) => line !== '')
  expect(response.status, lines[0]).toBe(200)
  expect(lines.at(-1)).toBe('data: [DONE]')
  return lines.slice(0, -1).map((line) => completionChunkSchema.parse(JSON.parse(line.slice(6))))
}

describe('prompts', () => {
  it('may be a text, token ids, or lists of both, with the same answer each', async () => {
    const first = await complete({ prompt: 'abc', return_token_ids: true })
    const ids = first.choices[0]?.prompt_token_ids ?? []
    const text = first.choices[0]?.text
    expect(first).toMatchObject({ object: 'text_completion', model: BASE, usage: { completion_tokens: 8 } })
    expect(first.id).toMatch(/^cmpl-/)
    expect(first.usage.prompt_tokens).toBe(ids.length)
    for (const prompt of [ids, ['abc'], [ids]]) expect((await complete({ prompt })).choices[0]?.text).toBe(text)
    const several = await complete({ prompt: ['abc', 'xyz', 'abc'], n: 2 })
    expect(several.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5])
    expect(several.choices[4]?.text).toBe(several.choices[0]?.text)
    expect(several.choices[0]?.text).toBe(text)
    expect(several.usage.completion_tokens).toBe(48)
  })

  it('of a request may be more than the engine holds at once', async () => {
    const prompts = Array.from({ length: 40 }, (_, i) => `prompt ${i}`)
    const { choices } = await complete({ prompt: prompts, max_tokens: 2 })
    expect(choices.map(({ index }) => index)).toEqual(prompts.map((_, i) => i))
    expect((await complete({ prompt: prompts[33], max_tokens: 2 })).choices[0]?.text).toBe(choices[33]?.text)
  })

  it('are counted as used, all as one request', async () => {
    const total = async () => {
      const { body } = await service.json<{ total: { requests: number; completion_tokens: number } }>('/v1/usage')
      return body.total
    }
    const before = await total()
    await complete({ prompt: ['abc', 'xyz'], n: 2, max_tokens: 3 })
    const after = await total()
    expect([after.requests - before.requests, after.completion_tokens - before.completion_tokens]).toEqual([1, 12])
  })

  it('get 16 tokens unless they say otherwise', async () => {
    const { usage } = await complete({ prompt: 'abc', max_tokens: null })
    expect(usage.completion_tokens).toBe(16)
  })

  it.each([
    ['prompt', { prompt: [] }],
    ['prompt', { prompt: '' }],
    ['prompt[1]', { prompt: ['a', ''] }],
    ['prompt', { prompt: ['a', [1]] }],
    ['prompt', { prompt: 5 }],
    ['prompt', {}],
    ['prompt', { prompt: [1, 999_999] }],
    ['suffix', { prompt: 'a', suffix: 'b' }],
    ['logprobs', { prompt: 'a', logprobs: 21 }],
    ['logprobs', { prompt: 'a', logprobs: -1 }],
    ['best_of', { prompt: 'a', n: 3, best_of: 2 }],
    ['best_of', { prompt: 'a', best_of: 2, stream: true }],
    ['max_tokens', { prompt: 'a', max_tokens: -1 }],
    ['n', { prompt: 'a', n: 0 }],
    ['temperature', { prompt: 'a', temperature: -1 }],
    ['stream_options', { prompt: 'a', stream_options: { include_usage: true } }],
    ['cache_salt', { prompt: 'a', cache_salt: '' }],
    ['prompt_logprobs', { prompt: 'a', prompt_logprobs: 21 }],
    ['input_tokens', { prompt: 'a'.repeat(100_000) }],
    ['input_tokens', { prompt: ['a', 'a'.repeat(100_000)], stream: true }],
  ])('are refused by name: %s', async (param, json) => {
    const { status, body } = await ask(json)
    expect(status, JSON.stringify(body)).toBe(400)
    expect(`${body.error.param} ${body.error.message}`).toContain(param)
  })

  it('of an unknown model answer 404, and without a key 401 as vLLM words it', async () => {
    const { status, body } = await ask({ prompt: 'a', model: 'nobody' })
    expect([status, body.error.type]).toEqual([404, 'NotFoundError'])
    const response = await service.fetch(PATH, { json: { prompt: 'a' }, headers: { authorization: '' } })
    expect([response.status, await response.json()]).toEqual([401, { error: 'Unauthorized' }])
  })
})

describe('echo and log-probabilities', () => {
  it('score a prompt as sampling scored it', async () => {
    const sampled = await complete({ prompt: 'abc', logprobs: 2, return_token_ids: true })
    const [choice] = sampled.choices
    const prompt = [...(choice?.prompt_token_ids ?? []), ...(choice?.token_ids ?? [])]
    for (const maxTokens of [0, 1]) {
      const scored = await complete({ prompt, echo: true, logprobs: 2, max_tokens: maxTokens, temperature: 0 })
      const logprobs = scored.choices[0]?.logprobs
      expect(logprobs?.tokens).toHaveLength(prompt.length + maxTokens)
      expect(logprobs?.token_logprobs[0]).toBeNull()
      expect(logprobs?.top_logprobs[0]).toBeNull()
      const start = choice?.prompt_token_ids?.length ?? 0
      for (const [i, expected] of (choice?.logprobs?.token_logprobs ?? []).entries()) {
        expect(Math.abs((logprobs?.token_logprobs[start + i] ?? 1) - (expected ?? 2))).toBeLessThan(1e-4)
      }
      expect(scored.usage.completion_tokens).toBe(maxTokens)
      expect(scored.choices[0]?.finish_reason).toBe('length')
    }
  })

  it('have an offset for every token, in characters, and the token among its alternatives', async () => {
    const prompt = 'naïve 😀 text'
    const { choices } = await complete({ prompt, echo: true, logprobs: 3, max_tokens: 4 })
    const { text = '', logprobs } = choices[0] ?? {}
    expect(text.startsWith(prompt)).toBe(true)
    const characters = [...text]
    for (const [i, token] of (logprobs?.tokens ?? []).entries()) {
      const from = logprobs?.text_offset[i] ?? 0
      if (i < 12) expect(characters.slice(from, from + [...token].length).join('')).toBe(token)
      const top = logprobs?.top_logprobs[i]
      if (i > 0) expect(top?.[token]).toBeGreaterThanOrEqual(logprobs?.token_logprobs[i] ?? 0)
      if (i > 0) expect(Object.keys(top ?? {}).length).toBeLessThanOrEqual(4)
    }
  })

  it('of the first alternative agree with a greedy choice', async () => {
    const { choices } = await complete({ prompt: 'abc', logprobs: 1, temperature: 0, return_tokens_as_token_ids: true })
    const logprobs = choices[0]?.logprobs
    for (const [i, token] of (logprobs?.tokens ?? []).entries()) {
      expect(token).toMatch(/^token_id:\d+$/)
      expect(logprobs?.top_logprobs[i]).toEqual({ [token]: logprobs?.token_logprobs[i] })
    }
  })

  it('of the prompt in a field of their own, each prompt with its own count, equal to those of an echo', async () => {
    const echoed = await complete({ prompt: ['abc', 'de'], echo: true, logprobs: 4, max_tokens: 1, prompt_logprobs: 2 })
    const ids = (text: string): string[] => [...text].map((character) => String(character.charCodeAt(0)))
    for (const [i, text] of ['abc', 'de'].entries()) {
      const { prompt_logprobs: positions, logprobs } = echoed.choices[i] ?? {}
      expect(positions).toHaveLength(text.length)
      expect(positions?.[0]).toBeNull()
      for (let at = 1; at < text.length; at++) {
        const own = positions?.[at]?.[ids(text)[at] ?? '']
        expect(own?.logprob).toBe(logprobs?.token_logprobs[at])
        expect(own?.decoded_token).toBe(text[at])
        expect([2, 3]).toContain(Object.keys(positions?.[at] ?? {}).length)
      }
    }
    const { choices } = await complete({ prompt: 'abc', prompt_logprobs: 0, max_tokens: 1 })
    expect(choices[0]?.logprobs).toBeNull()
    expect(choices[0]?.prompt_logprobs?.slice(1).map((position) => Object.keys(position ?? {}).length)).toEqual([1, 1])
    expect((await complete({ prompt: 'abc' })).choices[0]?.prompt_logprobs).toBeNull()
  })

  it('are absent unless asked for; echo without them repeats the text', async () => {
    for (const [prompt, text] of [
      ['abc', 'abc'],
      [[120, 121], 'xy'],
    ]) {
      const { choices } = await complete({ prompt, echo: true, max_tokens: 0 })
      expect(choices.map((choice) => [choice.text, choice.logprobs])).toEqual([[text, null]])
    }
  })
})

describe('choices', () => {
  it('best_of shows the likeliest of what was generated', async () => {
    const mean = (values: readonly (number | null)[] = []) =>
      values.reduce<number>((sum, value) => sum + (value ?? 0), 0) / values.length
    const all = await complete({ prompt: 'abc', n: 5, logprobs: 0 })
    const best = await complete({ prompt: 'abc', n: 2, best_of: 5, logprobs: 0 })
    const means = all.choices.map((choice) => mean(choice.logprobs?.token_logprobs)).sort((a, b) => b - a)
    const shown = best.choices.map((choice) => mean(choice.logprobs?.token_logprobs))
    // the last digits depend on who else was in the step
    for (const [i, value] of shown.entries()) expect(value).toBeCloseTo(means[i] ?? 0, 5)
    expect(best.choices.map(({ index }) => index)).toEqual([0, 1])
    expect(best.usage.completion_tokens).toBe(40)
  })

  it('honour stop strings, stop tokens, bias, allowed tokens and grammars as chat does', async () => {
    const forced = await complete({ prompt: 'abc', allowed_token_ids: [120], max_tokens: 5 })
    expect(forced.choices[0]?.text).toBe('xxxxx')
    const stopped = await complete({ prompt: 'abc', logit_bias: { 120: 100 }, stop: ['xxx'] })
    expect(stopped.choices[0]).toMatchObject({ text: '', finish_reason: 'stop', stop_reason: 'xxx' })
    const byToken = await complete({ prompt: 'abc', logit_bias: { 120: 100 }, stop_token_ids: [120] })
    expect(byToken.choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: 120 })
    const chosen = await complete({ prompt: 'abc', structured_outputs: { choice: ['yes', 'no'] }, ignore_eos: false })
    expect(['yes', 'no']).toContain(chosen.choices[0]?.text)
  })

  it('of one seed are the same again, of another not', async () => {
    const text = async (seed: number) => (await complete({ prompt: 'abc', seed, max_tokens: 20 })).choices[0]?.text
    expect(await text(3)).toBe(await text(3))
    expect(await text(3)).not.toBe(await text(4))
  })
})

describe('streams', () => {
  it('join to the whole answer, for several prompts and choices, with echo and log-probabilities', async () => {
    const json = { prompt: ['abc', 'naïve 😀'], n: 2, echo: true, logprobs: 2, return_token_ids: true }
    const whole = await complete(json)
    const chunks = await streamOf({ ...json, stream_options: { include_usage: true } })
    for (const choice of whole.choices) {
      const own = chunks.flatMap((chunk) => chunk.choices.filter(({ index }) => index === choice.index))
      expect(own.map(({ text }) => text).join('')).toBe(choice.text)
      expect(own.at(-1)?.finish_reason).toBe(choice.finish_reason)
      expect(own.slice(0, -1).every((each) => each.finish_reason === null)).toBe(true)
      expect(own.flatMap((each) => each.token_ids ?? [])).toEqual(choice.token_ids)
      expect(own[0]?.prompt_token_ids).toEqual(choice.prompt_token_ids)
      for (const key of ['tokens', 'text_offset'] as const) {
        expect(own.flatMap((each): (string | number)[] => each.logprobs?.[key] ?? [])).toEqual(choice.logprobs?.[key])
      }
    }
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: whole.usage.completion_tokens } })
  })

  it('that nobody reads end in the engine', async () => {
    const controller = new AbortController()
    const response = await service.fetch(PATH, {
      json: { model: BASE, prompt: ['a', 'b'], max_tokens: 2000, ignore_eos: true, stream: true },
      signal: controller.signal,
    })
    await response.body?.getReader().read()
    controller.abort()
    expect((await complete({ prompt: 'abc' })).choices).toHaveLength(1)
  })
})

describe('the OpenAI client for Node', () => {
  it('reads completions and streams', async () => {
    const client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
    const request = { model: BASE, prompt: 'Once', max_tokens: 6, seed: 2, logprobs: 1, echo: true }
    const whole = await client.completions.create(request)
    expect(whole.choices[0]?.logprobs?.tokens?.length).toBe(whole.usage?.total_tokens)
    let text = ''
    for await (const chunk of await client.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.text ?? ''
    }
    expect(text).toBe(whole.choices[0]?.text)
    await expect(client.completions.create({ ...request, best_of: 0, n: 2 })).rejects.toBeInstanceOf(
      OpenAI.BadRequestError,
    )
  })
})
