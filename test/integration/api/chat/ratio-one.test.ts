/**
 * Answers are what they are trained as: a trajectory built from answers has a ratio of 1 at the same weights, however the tokens were
 * chosen. Real engine host and training worker.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
  model = await service.createModel('m')
})
afterAll(() => service.dispose())

const prompt = [{ role: 'user', content: 'Count to three.' }]

it.each<[string, object]>([
  ['sampled', { temperature: 1 }],
  [
    'sampled at another temperature, with penalties, bias and DRY',
    { temperature: 0.5, presence_penalty: 1, logit_bias: [['a', 3]], dry_multiplier: 1 },
  ],
  [
    'with words that must not be said, and the top choices left out',
    { bad_words: ['e'], xtc_probability: 0.5, xtc_threshold: 0.001 },
  ],
  ['found by a beam search', { use_beam_search: true, n: 4 }],
])('%s', async (_, more) => {
  const groups = []
  for (let seed = 0; seed < 2; seed++) {
    const { status, body } = await service.json<ChatResponse>('/v1/chat/completions', {
      json: { model: 'm:step0', messages: prompt, max_tokens: 12, n: 4, seed, ...more },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    groups.push({
      trajectories: body.choices.map((choice, i) => ({
        messages_and_choices: [...prompt, { ...choice, prompt_token_ids: body.prompt_token_ids }],
        reward: i % 2,
        initial_policy_version: 0,
      })),
    })
  }
  const fresh = await service.createModel(`copy-${Math.random().toString(36).slice(2)}`)
  const { status, body: job } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: fresh, trajectory_groups: groups },
  })
  expect(status, JSON.stringify(job)).toBe(200)
  expect((await service.waitForJob(job.id)).status).toBe('completed')
  const [first] = (await service.allEvents(job.id)).filter(({ type }) => type === 'gradient_step')
  const data = first?.data as Record<string, number>
  expect(data['num_trainable_tokens'] ?? 1).toBeGreaterThan(0)
  expect(Math.abs((data['importance_ratio_mean'] ?? 0) - 1)).toBeLessThan(1e-3)
  expect(Math.abs((data['importance_ratio_p99'] ?? 0) - 1)).toBeLessThan(1e-3)
})

it('recorded through completions, responses and messages, whole and streamed', async () => {
  const ask = async (path: string, json: object): Promise<Record<string, unknown>> => {
    const { status, body } = await service.json<Record<string, unknown>>(path, { json: { model: 'm:step0', ...json } })
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }
  const trajectories = []
  for (const seed of [0, 1]) {
    const text = { prompt: 'Count to three.', max_tokens: 8, logprobs: 0, return_token_ids: true, seed }
    const input = { input: 'Count to three.', max_output_tokens: 16, seed }
    const said = { messages: prompt, max_tokens: 8, seed }
    const streamed = await service.fetch('/v1/responses', { json: { model: 'm:step0', ...input, stream: true } })
    const last = (await streamed.text()).split('\n\n').findLast((event) => event.includes('token_generations')) ?? ''
    const exchanges = {
      completions: [{ request: text, response: await ask('/v1/completions', text) }],
      responses: [
        { request: input, response: await ask('/v1/responses', input) },
        { request: input, response: JSON.parse(last.slice(last.indexOf('{'))).response },
      ],
      messages: [{ request: said, response: await ask('/v1/messages', said) }],
    }
    trajectories.push({ messages_and_choices: [], reward: seed, initial_policy_version: 0, exchanges })
  }
  const fresh = await service.createModel('recorded')
  const { body: job } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: fresh, trajectory_groups: [{ trajectories }] },
  })
  expect((await service.waitForJob(job.id)).status).toBe('completed')
  const events = await service.allEvents(job.id)
  const started = events.find(({ type }) => type === 'training_started')?.data as Record<string, number>
  expect(started).not.toHaveProperty('num_skipped_unsupported_exchange')
  const [first] = events.filter(({ type }) => type === 'gradient_step')
  const data = first?.data as Record<string, number>
  expect(Math.abs((data['importance_ratio_mean'] ?? 0) - 1)).toBeLessThan(1e-3)
  expect(Math.abs((data['importance_ratio_p99'] ?? 0) - 1)).toBeLessThan(1e-3)
  const response = (trajectories[0]?.exchanges.responses[0]?.response ?? {}) as { id: string }
  const kept = await service.json<object>(`/v1/responses/${response.id}`)
  expect([kept.status, 'token_generations' in kept.body]).toEqual([200, false])
})

it('the answer names the weights it came from', async () => {
  const base = await service.fetch('/v1/chat/completions', { json: { messages: prompt, max_tokens: 1 } })
  const { system_fingerprint: fingerprint } = (await base.json()) as ChatResponse
  expect(fingerprint).toMatch(/^trainyard\/tiny-random:step0:base-[0-9a-f]{16}$/)
  expect(base.headers.get('x-trainyard-checkpoint')).toBe(fingerprint)
  expect(model).not.toBe('')
})
