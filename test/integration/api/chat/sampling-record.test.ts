/**
 * Every door that answers with token ids says how they were drawn, by the same record, whole and streamed; plain answers say nothing. The real
 * engine on spark. What is recorded is held to the alternatives that the same answer reports: log q to 1e-5, whose float32 they are.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { joinSampling } from '#base/sampling-record.js'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import type { CompletionChunk, CompletionResponse } from '#contract/wire/inference/completions.js'
import { type SamplingRecord, samplingRecordSchema } from '#contract/wire/sampling-record.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { parseSampling } from '#formats/rows/sampling-record.js'
import type { Message } from '#plugins/messages/wire.js'
import type { Response as Responses } from '#plugins/responses/wire.js'
import { joinChunks } from '#sdk/rl/join-chunks.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const SPARK = 'trainyard/spark'
let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, baseModels: [SPARK], threads: 1, precision: 'f32' })
  const made = await service.json('/v1/preview/models', { json: { project: 'tests', name: 'm', base_model: SPARK } })
  expect(made.status, JSON.stringify(made.body)).toBe(200)
})
afterAll(() => service.dispose())

const messages = [{ role: 'user', content: 'Count to three.' }]

async function ask<T>(path: string, json: object): Promise<T> {
  const { status, body } = await service.json<T>(path, { json: { model: 'm:step0', ...json } })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

async function stream<T>(path: string, json: object): Promise<T[]> {
  const response = await service.fetch(path, { json: { model: 'm:step0', stream: true, ...json } })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  const lines = text.split('\n').filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
  return lines.map((line) => JSON.parse(line.slice('data: '.length)) as T)
}

function checked(sampling: SamplingRecord | undefined, tokenIds: readonly number[]): SamplingRecord {
  const record = samplingRecordSchema.parse(sampling)
  // as rows are read: counts, sets and log q
  parseSampling(JSON.parse(JSON.stringify(record)), 'sampling', {
    tokenIds: Int32Array.from(tokenIds),
    count: tokenIds.length,
  })
  return record
}

/** Sets of a record, one a token. */
function setsOf({ kept }: SamplingRecord): number[][] {
  let at = 0
  return kept.counts.map((count) => {
    at += count
    return kept.ids.slice(at - count, at)
  })
}

const choiceOf = async (json: object): Promise<ChatResponse['choices'][number]> => {
  const { choices } = await ask<ChatResponse>('/v1/chat/completions', { messages, max_tokens: 12, seed: 3, ...json })
  const [choice] = choices
  if (choice === undefined) throw new Error('no choice')
  return choice
}

describe('a choice', () => {
  it('says nothing where it was drawn plainly, or where its ids are not sent', async () => {
    expect(await choiceOf({})).not.toHaveProperty('sampling')
    expect(await choiceOf({ temperature: 0.5, return_token_ids: false })).not.toHaveProperty('sampling')
    expect(await choiceOf({ top_k: 0, top_p: 1, min_p: 0, min_tokens: 0, stop: ['zz'] })).not.toHaveProperty('sampling')
  })

  it.each([
    [{ temperature: 0.5, top_k: 5 }],
    [{ temperature: 2, top_k: 12, top_p: 0.9 }],
    [{ top_k: 20, min_p: 0.05 }],
    [{ temperature: 0.7, top_k: 1 }],
  ])('%j: log q is that of the kept alternatives', async (rules) => {
    const { top_logprobs: _, ...choice } = {
      ...(await choiceOf({ ...rules, top_logprobs: 20, return_tokens_as_token_ids: true })),
      top_logprobs: 0,
    }
    const ids = choice.token_ids ?? []
    const record = checked(choice.sampling, ids)
    expect(record).toMatchObject({ temperature: 1, top_p: 1, min_p: 0, ...rules, unmodelled: [] })
    expect(record.logprobs).toHaveLength(ids.length)
    setsOf(record).forEach((set, t) => {
      const { top_logprobs: top = [] } = choice.logprobs?.content?.[t] ?? {}
      const raw = new Map(top.map(({ token, logprob }) => [Number(token.slice('token_id:'.length)), logprob]))
      expect(set.every((id) => raw.has(id))).toBe(true)
      const { temperature = 1 } = rules as { temperature?: number }
      const scaled = (id: number): number => (raw.get(id) ?? Number.NaN) / temperature
      const total = Math.log(set.reduce((sum, id) => sum + Math.exp(scaled(id)), 0))
      expect(Math.abs((record.logprobs?.[t] ?? 1) - (scaled(ids[t] ?? -1) - total))).toBeLessThan(1e-5)
    })
  })

  it('has no sets at another temperature alone, and is certain where it is greedy', async () => {
    const warm = await choiceOf({ temperature: 1.5 })
    const record = checked(warm.sampling, warm.token_ids ?? [])
    expect(record).toMatchObject({ temperature: 1.5, kept: { ids: [] }, unmodelled: [] })
    expect(record.logprobs).not.toEqual(warm.logprobs?.content?.map(({ logprob }) => logprob))
    const greedy = await choiceOf({ temperature: 0 })
    const ids = greedy.token_ids ?? []
    const zeros = ids.map(() => 0)
    const ones = ids.map(() => 1)
    const certain = { temperature: 0, logprobs: zeros, kept: { counts: ones, ids }, unmodelled: [] }
    expect(checked(greedy.sampling, ids)).toMatchObject(certain)
  })

  it('has the sets of a grammar that leaves few tokens', async () => {
    const choice = await choiceOf({ structured_outputs: { choice: ['red', 'green', 'blue'] }, max_tokens: 20 })
    const record = checked(choice.sampling, choice.token_ids ?? [])
    expect(record).toMatchObject({ temperature: 1, unmodelled: [] })
    expect(record.kept.counts[0]).toBeGreaterThan(1)
    // at temperature 1 its log-probabilities are those among the allowed tokens
    choice.logprobs?.content?.forEach(({ logprob }, t) => {
      if ((record.kept.counts[t] ?? 0) === 0) return
      expect(Math.abs((record.logprobs?.[t] ?? 1) - logprob)).toBeLessThan(1e-5)
    })
  })

  it.each([
    [{ frequency_penalty: 1 }, ['frequency_penalty']],
    [{ logit_bias: { '7': 3 }, repetition_penalty: 1.2 }, ['logit_bias', 'repetition_penalty']],
    [{ use_beam_search: true, n: 2 }, ['use_beam_search']],
  ])('names what a learner cannot follow: %j', async (rules, names) => {
    const choice = await choiceOf(rules)
    expect(checked(choice.sampling, choice.token_ids ?? []).unmodelled).toEqual(names)
  })
})

describe('doors', () => {
  const rules = { temperature: 0.5, top_p: 0.9, top_k: 40, seed: 5 }
  const expected = { temperature: 0.5, top_p: 0.9, top_k: 40, min_p: 0, unmodelled: [] }

  it('chat: streamed as whole, and joined by the library', async () => {
    const asked = { messages, max_tokens: 12, ...rules, logprobs: true, return_token_ids: true }
    const whole = await choiceOf(asked)
    const chunks = await stream<ChatChunk>('/v1/chat/completions', asked)
    const [joined] = joinChunks(chunks).choices
    expect(joined?.token_ids).toEqual(whole.token_ids)
    expect(joined?.sampling).toEqual(whole.sampling)
    expect(checked(whole.sampling, whole.token_ids ?? [])).toMatchObject(expected)
    for (const { choices } of chunks) {
      for (const choice of choices) {
        const count = choice.token_ids?.length ?? 0
        expect(choice.sampling?.logprobs?.length ?? 0).toBe(count)
      }
    }
  })

  it('completions: whole and streamed', async () => {
    const asked = { prompt: 'Once upon', max_tokens: 12, logprobs: 0, return_token_ids: true, ...rules }
    const [whole] = (await ask<CompletionResponse>('/v1/completions', asked)).choices
    const parts = (await stream<CompletionChunk>('/v1/completions', asked)).flatMap(({ choices }) => choices)
    expect(checked(whole?.sampling, whole?.token_ids ?? [])).toMatchObject(expected)
    const joined = joinSampling(
      parts.map(({ logprobs, sampling }) => ({
        logprobs: (logprobs?.token_logprobs ?? []).map((logprob) => logprob ?? 0),
        sampling,
      })),
    )
    expect(joined).toEqual(whole?.sampling)
    const plain = await ask<CompletionResponse>('/v1/completions', { ...asked, temperature: 1, top_p: 1, top_k: 0 })
    expect(plain.choices[0]).not.toHaveProperty('sampling')
    const blind = await ask<CompletionResponse>('/v1/completions', { ...asked, return_token_ids: false })
    expect(blind.choices[0]).not.toHaveProperty('sampling')
  })

  it('responses and messages: whole and streamed, and as rows that are trained on', async () => {
    const input = { input: 'Count to three.', max_output_tokens: 16, ...rules }
    const said = { messages, max_tokens: 12, ...rules }
    const response = await ask<Responses>('/v1/responses', input)
    const [generation] = response.token_generations ?? []
    const ids = generation?.output_tokens.map(({ token_id: id }) => id) ?? []
    const ofResponse = checked(generation?.sampling, ids)
    expect(ofResponse).toMatchObject(expected)
    const events = await stream<{ type: string; response?: Responses }>('/v1/responses', input)
    const last = events.findLast((event) => event.response?.token_generations !== undefined)?.response
    expect(last?.token_generations?.[0]?.sampling).toEqual(ofResponse)

    const message = await ask<Message>('/v1/messages', said)
    const ofMessage = checked(message.sampling, message.token_ids ?? [])
    expect(ofMessage).toMatchObject(expected)
    const heard = await stream<{ type: string; sampling?: SamplingRecord }>('/v1/messages', said)
    expect(heard.find(({ type }) => type === 'message_delta')?.sampling).toEqual(ofMessage)
    expect(await ask<Message>('/v1/messages', { messages, max_tokens: 12 })).not.toHaveProperty('sampling')

    const exchanges = { responses: [{ request: input, response }], messages: [{ request: said, response: message }] }
    const rows = JSON.parse(JSON.stringify([{ trajectories: [{ messages_and_choices: [], reward: 1, exchanges }] }]))
    const [group] = parseTrajectoryGroups(rows)
    expect(group?.trajectories[0]?.histories).toHaveLength(2)
  })
})
