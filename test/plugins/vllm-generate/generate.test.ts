/**
 * `POST /inference/v1/generate` on the tiny model: ids and log-probabilities as clients of either version of vLLM read them, streams, stops,
 * refusals.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type GenerateChunk,
  type GeneratedChoice,
  type GenerateResponse,
  generateChunkSchema,
  generateResponseSchema,
} from '#plugins/vllm-generate/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const PATH = '/inference/v1/generate'
const BASE = 'trainyard/tiny-random'
const CONTEXT = 64
let service: TestService
let prompt: number[]
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 0, maxContextLength: CONTEXT })
  const { body } = await service.json<{ tokens: number[] }>('/tokenize', { json: { prompt: 'Say yes' } })
  prompt = body.tokens
})
afterAll(() => service.dispose())

const bodyOf = (params: object, json: object = {}) => ({
  json: {
    ...{ model: BASE, token_ids: prompt },
    ...{ sampling_params: { seed: 3, max_tokens: 6, logprobs: 1, ignore_eos: true, ...params }, ...json },
  },
})

async function generate(params: object, json: object = {}): Promise<GenerateResponse> {
  const { status, body } = await service.json<object>(PATH, bodyOf(params, json))
  expect(status, JSON.stringify(body)).toBe(200)
  return generateResponseSchema.strict().parse(body)
}

async function chunksOf(params: object, json: object = {}): Promise<GenerateChunk[]> {
  const response = await service.fetch(PATH, bodyOf(params, { stream: true, ...json }))
  const lines = (await response.text()).split('\n\n').filter((line) => line !== '')
  expect(lines.at(-1)).toBe('data: [DONE]')
  return lines.slice(0, -1).map((line) => generateChunkSchema.strict().parse(JSON.parse(line.slice(6))))
}

const only = ({ choices }: { readonly choices: readonly GeneratedChoice[] }): GeneratedChoice => {
  const [choice] = choices
  if (choice === undefined) throw new Error('no choice')
  return choice
}
const contentOf = (answer: GenerateResponse) => only(answer).logprobs?.content ?? []

describe('an answer', () => {
  it('has the ids of a completion of the same seed, and positions that both versions of the wire read', async () => {
    const answer = await generate({}, { request_id: 'r-1', return_token_ids: true })
    const completion = await service.json<{
      choices: { token_ids: number[]; logprobs: { token_logprobs: number[] } }[]
    }>('/v1/completions', {
      json: {
        ...{ model: BASE, prompt, seed: 3, max_tokens: 6, logprobs: 1, ignore_eos: true, return_token_ids: true },
      },
    })
    const [same] = completion.body.choices
    expect(only(answer).token_ids).toEqual(same?.token_ids)
    expect(contentOf(answer).map(({ logprob }) => logprob)).toEqual(same?.logprobs.token_logprobs)
    expect(answer).toMatchObject({
      ...{ request_id: 'r-1', model: BASE, output_mode: 'tokens', logprobs_mode: 'processed_logprobs' },
      prompt_token_ids: prompt,
      usage: { prompt_tokens: prompt.length, completion_tokens: 6, total_tokens: prompt.length + 6 },
    })
    for (const [i, position] of contentOf(answer).entries()) {
      const id = only(answer).token_ids[i]
      expect(position).toMatchObject({ token: `token_id:${id}`, token_id: id, bytes: null })
      expect(position.top_logprobs[0]).toEqual({ ...position, top_logprobs: undefined })
    }
  })

  it('goes to the end of the context where nothing says how long it may be', async () => {
    const answer = await generate({ max_tokens: undefined, logprobs: undefined })
    expect(only(answer)).toMatchObject({ finish_reason: 'length', logprobs: null })
    expect(answer.usage.total_tokens).toBe(CONTEXT)
  })

  it('ends with the id that ended it', async () => {
    const [, , third] = only(await generate({})).token_ids
    const ended = only(await generate({ stop_token_ids: [third] }))
    expect(ended).toMatchObject({ finish_reason: 'stop', stop_reason: third })
    expect(ended.token_ids.at(-1)).toBe(third)
  })

  it('comes in parts with the same ids, the usage last', async () => {
    const whole = await generate({ n: 2 })
    const chunks = await chunksOf({ n: 2 }, { stream_options: { include_usage: true }, return_token_ids: true })
    expect(chunks[0]?.prompt_token_ids).toEqual(prompt)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } })
    for (const index of [0, 1]) {
      const parts = chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index)
      expect(parts.flatMap(({ token_ids }) => token_ids)).toEqual(whole.choices[index]?.token_ids)
      expect(parts.flatMap(({ logprobs }) => logprobs?.content ?? [])).toEqual(whole.choices[index]?.logprobs?.content)
      expect(parts.at(-1)?.finish_reason).toBe('length')
    }
  })

  it('has text where text is asked for', async () => {
    const { text, logprobs } = only(await generate({}, { output_mode: 'text' }))
    expect(text).toBeTypeOf('string')
    expect(logprobs?.content.some(({ token }) => token.startsWith('token_id:'))).toBe(false)
  })
})

describe('log-probabilities', () => {
  const params = { temperature: 0.5, top_k: 4, logprobs: 20, max_tokens: 12 }

  it('are of what tokens were drawn from: temperature and kept set, to 1e-5 of float64', async () => {
    const drawn = await generate(params)
    const raw = await generate({ ...params, extra_args: { trainyard: { logprobs_mode: 'raw_logprobs' } } })
    expect(only(raw).token_ids).toEqual(only(drawn).token_ids)
    expect(raw.logprobs_mode).toBe('raw_logprobs')
    for (const [i, position] of contentOf(drawn).entries()) {
      const rawOf = new Map(contentOf(raw)[i]?.top_logprobs.map(({ token_id, logprob }) => [token_id, logprob]))
      const kept = [...rawOf.values()].sort((a, b) => b - a).slice(0, 4)
      const total = Math.log(kept.reduce((sum, logprob) => sum + Math.exp(logprob / 0.5), 0))
      expect(position.top_logprobs).toHaveLength(4)
      for (const { token_id, logprob } of position.top_logprobs) {
        expect(Math.abs(logprob - ((rawOf.get(token_id) ?? Number.NaN) / 0.5 - total))).toBeLessThan(1e-5)
      }
      const sum = position.top_logprobs.reduce((all, { logprob }) => all + Math.exp(logprob), 0)
      expect(Math.abs(sum - 1)).toBeLessThan(1e-5)
    }
  })

  it('of a greedy answer are those of a draw without a choice', async () => {
    const content = contentOf(await generate({ temperature: 0, logprobs: 5 }))
    expect(content.map(({ logprob, rank }) => [logprob, rank])).toEqual(content.map(() => [0, 1]))
    for (const { top_logprobs: top } of content) expect(top).toHaveLength(1)
  })

  it('stand alone where penalties moved scores: no difference tells those of others', async () => {
    const answer = await generate({ presence_penalty: 1.5, logprobs: 5 })
    const later = contentOf(answer).slice(1)
    for (const { top_logprobs: top } of later) expect(top).toHaveLength(1)
    expect(only(answer).sampling?.unmodelled).toContain('presence_penalty')
  })
})

describe('a request', () => {
  it.each([
    ['ids that no token has', { token_ids: [99_999_999] }, 'token_ids'],
    ['no ids', { token_ids: [] }, 'token_ids'],
    ['parts that are no tokens', { content_parts: [{ type: 'image' }] }, 'content_parts'],
    ['caches of others', { kv_transfer_params: { do_remote_decode: true } }, 'kv_transfer_params'],
    ['a priority without that scheduler', { priority: 3 }, 'priority'],
  ])('with %s is refused by name', async (_, json, name) => {
    const { status, body } = await service.json<{ error: { message: string; param: string | null } }>(
      PATH,
      bodyOf({}, json),
    )
    expect(status).toBe(400)
    expect(`${body.error.param} ${body.error.message}`).toContain(name)
  })

  it('that is too long for the context says so in the words of clients', async () => {
    const { status, body } = await service.json<{ error: { message: string; code: unknown } }>(
      PATH,
      bodyOf({}, { token_ids: Array.from({ length: CONTEXT + 1 }, () => prompt[0]) }),
    )
    expect([status, body.error.message]).toEqual([400, expect.stringContaining(`${CONTEXT}`)])
  })

  it('may hold what nobody knows here, which is named', async () => {
    const response = await service.fetch(PATH, bodyOf({ routed_experts: 3 }, { new_option: true }))
    expect(response.status).toBe(200)
    const ignored = response.headers.get('x-trainyard-ignored-fields') ?? ''
    for (const name of ['new_option', 'sampling_params.routed_experts']) expect(ignored).toContain(name)
    await response.body?.cancel()
  })

  it('shares no prefix with one of another salt', async () => {
    const long = { token_ids: Array.from({ length: 40 }, (_, i) => prompt[i % prompt.length]) }
    const cachedOf = async (salt: string) =>
      (await generate({ max_tokens: 1 }, { ...long, cache_salt: salt })).usage.prompt_tokens_details?.cached_tokens
    expect(await cachedOf('a')).toBe(0)
    expect(await cachedOf('b')).toBe(0)
    expect(await cachedOf('a')).toBeGreaterThan(0)
  })
})
