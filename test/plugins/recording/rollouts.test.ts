/**
 * Rollouts of programs: every dialect below an address, whole and streamed, against the template's own second pass; what is
 * delivered, what is not; limits, sampling, sessions, ends, rows that train.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import type { CreatedRollout, RecordedRollout } from '#plugins/recording/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const BASE = 'trainyard/spark'
let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 0, baseModels: [BASE] })
  await service.json('/v1/preview/models', { json: { project: 'p', name: 'agent', base_model: BASE } })
  model = 'p/agent'
})
afterAll(() => service.dispose())

type Answer = JsonObject & { readonly status?: string }
type Choice = {
  readonly message: { readonly content: string }
  readonly prompt_token_ids: number[]
  readonly token_ids: number[]
  readonly logprobs: { readonly content: { readonly token: string; readonly logprob: number }[] }
  readonly sampling?: { readonly temperature: number }
}
type Recorded = RecordedRollout & {
  readonly trajectory: {
    readonly messages_and_choices: (Choice | { readonly role: string })[]
    readonly additional_histories: { readonly messages_and_choices: Choice[] }[]
    readonly reward: number
    readonly metrics: Record<string, number>
    readonly initial_policy_version: number
  } | null
}

async function open(json: object = {}): Promise<CreatedRollout> {
  const { status, body } = await service.json<CreatedRollout>('/v1/preview/rollouts', { json: { model, ...json } })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

const below = ({ base_url: url }: CreatedRollout, path: string): string => url.replace(/\/v1$/, '') + path

/** No key of the server goes along. */
function send(rollout: CreatedRollout, path: string, json: object, headers: Record<string, string> = {}) {
  return fetch(below(rollout, path), {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer unused', ...headers },
    body: JSON.stringify(json),
  })
}

async function ask(rollout: CreatedRollout, path: string, json: object): Promise<Answer> {
  const response = await send(rollout, path, json)
  const body = (await response.json()) as Answer
  expect(response.status, JSON.stringify(body)).toBe(200)
  return body
}

const finish = (id: string, json: object = { rewards: { task: { score: 1 } } }) =>
  service.json<RecordedRollout>(`/v1/preview/rollouts/${id}/finish`, { json })

async function recorded({ id }: Pick<RecordedRollout, 'id'>): Promise<Recorded> {
  return (await service.json<Recorded>(`/v1/preview/rollouts/${id}`)).body
}

const choicesOf = ({ messages_and_choices: items }: { readonly messages_and_choices: readonly object[] }): Choice[] =>
  items.filter((item): item is Choice => 'message' in item)

function trajectoryOf({ trajectory }: Recorded): NonNullable<Recorded['trajectory']> {
  if (trajectory === null) throw new Error('no trajectory')
  return trajectory
}

/** What the template makes of a conversation, asked with the server's own key. */
async function rendered(json: object): Promise<number[]> {
  const { body } = await service.json<{ tokens: number[] }>('/tokenize', { json: { model, ...json } })
  return body.tokens
}

const user = (content: string) => ({ role: 'user', content })
const MESSAGES = [user('How many times does the letter "e" appear in "tree"?')]

describe('dialects', () => {
  const chat = { model: 'whatever', messages: MESSAGES, max_tokens: 12 }
  const requests: readonly (readonly [string, string, object])[] = [
    ['chat', '/v1/chat/completions', chat],
    ['responses', '/v1/responses', { model: 'x', input: MESSAGES[0]?.content, max_output_tokens: 12 }],
    ['messages', '/v1/messages', { model: 'claude', messages: MESSAGES, max_tokens: 12 }],
  ]

  it.each(requests)(
    '%s, whole and streamed: ids are those of the template, and every sampled one',
    async (_, path, json) => {
      const rollout = await open()
      await ask(rollout, path, json)
      const streamed = await send(rollout, path, { ...json, stream: true })
      expect(await streamed.text()).toContain('data: ')
      expect((await finish(rollout.id)).body).toMatchObject({ status: 'finished', turns: 2, reward: 1 })
      const trajectory = trajectoryOf(await recorded(rollout))
      const all = [trajectory, ...trajectory.additional_histories].flatMap(choicesOf)
      const prompt = await rendered({ messages: MESSAGES })
      expect(all).toHaveLength(2)
      for (const choice of all) {
        expect(choice.prompt_token_ids).toEqual(prompt)
        expect(choice.token_ids.length).toBeGreaterThan(0)
        expect(choice.logprobs.content.map(({ token }) => token)).toEqual(
          choice.token_ids.map((id) => `token_id:${id}`),
        )
        expect(choice).not.toHaveProperty('sampling')
      }
      const parsed = parseTrajectoryGroup({ trajectories: [trajectory] }, 'group')
      expect(parsed.trajectories[0]?.histories).toHaveLength(2)
    },
  )

  it.each([
    ['completions', '/v1/completions', (prompt: number[]) => ({ prompt, max_tokens: 6 })],
    [
      'generate',
      '/inference/v1/generate',
      (token_ids: number[]) => ({ token_ids, sampling_params: { max_tokens: 6, logprobs: 1 } }),
    ],
  ])('%s: the prompt is what was sent, the answer what was answered', async (_, path, toJson) => {
    const rollout = await open()
    const prompt = await rendered({ prompt: 'count the letters' })
    const answer = await ask(rollout, path, { ...toJson(prompt), return_token_ids: true })
    await finish(rollout.id)
    const [choice] = choicesOf(trajectoryOf(await recorded(rollout)))
    expect(choice?.prompt_token_ids).toEqual(prompt)
    expect(choice?.token_ids).toEqual((answer['choices'] as unknown as Choice[])[0]?.token_ids)
  })

  it('a conversation that goes on is one history, with the ids that were sampled in it', async () => {
    const rollout = await open()
    const messages: object[] = [...MESSAGES]
    for (let turn = 0; turn < 3; turn++) {
      const { choices } = (await ask(rollout, '/v1/chat/completions', { ...chat, messages })) as unknown as {
        choices: { message: { role: string; content: string } }[]
      }
      messages.push({ role: 'assistant', content: choices[0]?.message.content ?? '' }, user(`and again ${turn}?`))
    }
    await finish(rollout.id)
    const trajectory = trajectoryOf(await recorded(rollout))
    expect(trajectory.additional_histories).toEqual([])
    const choices = choicesOf(trajectory)
    expect(choices).toHaveLength(3)
    for (const [i, choice] of choices.slice(1).entries()) {
      const before = choices[i] as Choice
      const sofar = [...before.prompt_token_ids, ...before.token_ids]
      expect(choice.prompt_token_ids.slice(0, sofar.length)).toEqual(sofar)
    }
    const said = trajectory.messages_and_choices.map((item) => ('message' in item ? 'answer' : item.role))
    expect(said).toEqual(['user', 'answer', 'user', 'answer', 'user', 'answer'])
    expect(trajectory.metrics).toMatchObject({
      'recording/turns': 3,
      'recording/additional_histories': 0,
      'reward/task': 1,
    })
  })

  it('a conversation of its own is an additional history, whose share is told', async () => {
    const rollout = await open()
    await ask(rollout, '/v1/chat/completions', chat)
    await ask(rollout, '/v1/messages', { messages: [user('something else')], max_tokens: 5 })
    await finish(rollout.id)
    const trajectory = trajectoryOf(await recorded(rollout))
    expect(trajectory.additional_histories).toHaveLength(1)
    expect(trajectory.metrics['recording/additional_histories']).toBe(0.5)
  })

  it('models and tokens are those of the rollout', async () => {
    const rollout = await open()
    const list = (await (await fetch(below(rollout, '/v1/models'))).json()) as { data: { max_model_len: number }[] }
    expect(list.data).toHaveLength(1)
    expect(list.data[0]?.max_model_len).toBeGreaterThan(0)
    expect((await fetch(below(rollout, '/v1/models/any/name'))).status).toBe(200)
    const { tokens } = (await ask(rollout, '/tokenize', { model: 'x', prompt: 'tree' })) as unknown as {
      tokens: number[]
    }
    expect(tokens).toEqual(await rendered({ prompt: 'tree' }))
    const counted = await ask(rollout, '/v1/messages/count_tokens', { messages: MESSAGES })
    expect(counted['input_tokens']).toBe((await rendered({ messages: MESSAGES })).length)
    expect((await recorded(rollout)).turns).toBe(0)
  })
})

describe('sampling', () => {
  it('is the rollout’s, whatever requests say, and they are counted', async () => {
    const rollout = await open({ sampling: { temperature: 0.5, top_p: 0.9 } })
    const json = { messages: MESSAGES, max_tokens: 8 }
    await ask(rollout, '/v1/chat/completions', { ...json, temperature: 0, logit_bias: { '5': 100 }, seed: 4 })
    await ask(rollout, '/v1/chat/completions', { ...json, temperature: 0.5, top_p: 0.9, top_k: 512 })
    const { body } = await finish(rollout.id)
    expect(body.overridden_calls).toBe(1)
    for (const choice of [...choicesOf(trajectoryOf(await recorded(rollout)))]) {
      expect(choice.sampling).toMatchObject({ temperature: 0.5, top_p: 0.9, top_k: 512, unmodelled: [] })
    }
  })
})

describe('what is not delivered', () => {
  it('a stream that its client leaves is not trained, and counted', async () => {
    const rollout = await open()
    const leaving = new AbortController()
    const response = await fetch(below(rollout, '/v1/chat/completions'), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: MESSAGES, stream: true, max_tokens: 2000 }),
      signal: leaving.signal,
    })
    await response.body?.getReader().read()
    leaving.abort()
    await until(async () => ((await recorded(rollout)).undelivered_calls === 1 ? true : null), 'the answer is lost')
    await ask(rollout, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 5 })
    const { body } = await finish(rollout.id)
    expect(body).toMatchObject({ undelivered_calls: 1, status: 'finished' })
    const trajectory = trajectoryOf(await recorded(rollout))
    expect([trajectory, ...trajectory.additional_histories].flatMap(choicesOf)).toHaveLength(1)
    expect(trajectory.metrics['recording/undelivered_calls']).toBe(1)
  })

  it('a request that is refused costs no turn', async () => {
    const rollout = await open({ max_turns: 1 })
    const response = await send(rollout, '/v1/chat/completions', { messages: [] })
    expect(response.status).toBe(400)
    expect(isJsonObject((await response.json()) as JsonObject)).toBe(true)
    await until(async () => ((await recorded(rollout)).turns === 0 ? true : null), 'the turn is given back')
    // refused when it is generated, and not when it is read
    const long = await send(rollout, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 1_000_000 })
    expect([long.status, await long.text()]).toEqual([400, expect.stringContaining('max_model_len')])
    await until(async () => ((await recorded(rollout)).turns === 0 ? true : null), 'that turn is given back')
    expect(await recorded(rollout)).toMatchObject({ undelivered_calls: 0 })
    await ask(rollout, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 2 })
    const second = await send(rollout, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 2 })
    expect([second.status, await second.text()]).toEqual([403, expect.stringContaining('rollout_limit_reached')])
  })
})
