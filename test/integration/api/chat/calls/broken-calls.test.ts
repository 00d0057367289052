/**
 * Calls whose arguments are no JSON: what a model wrote comes back to it through every API, and neither a conversation nor a job of other
 * rows ends over it.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import type { Response as OpenResponse } from '#plugins/responses/wire.js'
import { createTestService, type TestService } from '../../../../support/service/create-test-service.js'
import { templatedModel } from '../../../../support/service/templated-model.js'

const refusing =
  '{% for m in messages %}{% if m.content == "refuse" %}{{ raise_exception("not this") }}{% endif %}{% endfor %}'

let service: TestService
let folder: string
let modelId: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const hermes = refusing + readFileSync(join(packageRoot(), 'test/fixtures/thinking.jinja'), 'utf8')
  const baseModels = [await templatedModel(folder, 'hermes', hermes)]
  service = await createTestService({ scripted: false, threads: 1, baseModels })
  const { body } = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'p', name: 'm', base_model: 'hermes', return_existing: true },
  })
  modelId = body.id
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const BROKEN = '{"city": "Oslo",}'
const CALL = `<tool_call>\n{"name": "weather", "arguments": ${BROKEN}}\n</tool_call>`
const parameters = { type: 'object', properties: { city: { type: 'string' } } } as const
const tools = [{ type: 'function', function: { name: 'weather', parameters } }] as const
const user = { role: 'user', content: 'Weather in Oslo?' } as const
const writes = (text: string) => ({ temperature: 0, structured_outputs: { choice: [text] } })

async function promptOf(messages: readonly object[]): Promise<string> {
  const { status, body } = await service.json<{ prompt: string }>('/apply-template', {
    json: { model: 'hermes', messages, tools },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.prompt
}

describe('a conversation with a broken call goes on', () => {
  it.each([BROKEN, '{"city": "Oslo\nNorway"}', '{"city":', '[1]', 'none'])(
    'of any server, and shows it as it was written: %j',
    async (given) => {
      const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: given } }
      const messages = [
        user,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'error: arguments are no JSON' },
      ]
      expect(await promptOf(messages)).toContain(`{"name": "weather", "arguments": ${given}}\n</tool_call>`)
      const body = { model: 'hermes', messages, tools, max_tokens: 2 }
      expect(await service.json('/v1/chat/completions', { json: body })).toMatchObject({ status: 200 })
    },
  )

  it('in chat completions, with the client for Node: whole and streamed', async () => {
    const client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
    const body = { model: 'hermes', messages: [user], tools: [...tools], ...writes(CALL) }
    const whole = (await client.chat.completions.create(body)).choices[0]
    const streamed = (await client.chat.completions.stream(body).finalChatCompletion()).choices[0]
    for (const choice of [whole, streamed]) {
      expect(choice).toMatchObject({
        finish_reason: 'tool_calls',
        message: { tool_calls: [{ function: { name: 'weather', arguments: BROKEN } }] },
      })
      const id = choice?.message.tool_calls?.[0]?.id ?? ''
      const messages = [user, choice!.message, { role: 'tool' as const, tool_call_id: id, content: 'error' }]
      expect(await promptOf(messages)).toContain(CALL)
      const next = await client.chat.completions.create({ model: 'hermes', messages, tools: [...tools], max_tokens: 2 })
      expect(next.choices).toHaveLength(1)
    }
  })

  it('in responses, where it is a whole item', async () => {
    // the grammar of responses is a schema: the broken call comes from a chat, in the item that a client makes of it
    const item = { type: 'function_call', call_id: 'c', name: 'weather', arguments: BROKEN, status: 'completed' }
    const output = { type: 'function_call_output', call_id: 'c', output: 'error' }
    const { status, body } = await service.json<OpenResponse>('/v1/responses', {
      json: { model: 'hermes', input: [{ role: 'user', content: 'x' }, item, output], max_output_tokens: 2 },
    })
    expect([status, body.status]).toEqual([200, 'incomplete'])
  })

  it('in messages, where it stands under INVALID_JSON as in Anthropic’s reference', async () => {
    const client = new Anthropic({ apiKey: service.apiKey, baseURL: service.url, maxRetries: 0 })
    const use = { type: 'tool_use' as const, id: 't', name: 'weather', input: { INVALID_JSON: BROKEN } }
    const message = await client.messages.create({
      model: 'hermes',
      max_tokens: 2,
      tools: [{ name: 'weather', input_schema: parameters }],
      messages: [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: [use] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'error', is_error: true }] },
      ],
    })
    expect(message.stop_reason).toBe('max_tokens')
  })
})

describe('training', () => {
  const entry = (id: number) => ({ token: `token_id:${id}`, logprob: -0.5, bytes: [97], top_logprobs: [] })
  const choice = (content: string, more: object = {}) => ({
    index: 0,
    finish_reason: 'stop',
    message: { role: 'assistant', content, ...more },
    logprobs: { content: [entry(5), entry(6)], refusal: null },
  })
  const group = (items: (reward: number) => readonly object[]) => ({
    trajectories: [0, 1].map((reward) => ({ messages_and_choices: items(reward), reward })),
  })
  const call = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":' } }]
  const good = group(() => [user, choice('a')])
  const broken = group((reward) => [
    user,
    choice('', { tool_calls: call }),
    { role: 'tool', tool_call_id: 'c', content: 'error' },
    choice(String(reward)),
  ])
  const refused = group((reward) => [{ role: 'user', content: 'refuse' }, choice(String(reward))])

  async function create(groups: readonly object[], query = '') {
    const json = { model_id: modelId, trajectory_groups: groups, experimental_config: { learning_rate: 1e-5 } }
    return service.json<{ id: string; left_out?: object[]; error?: { message: string } }>(
      `/v1/preview/training-jobs${query}`,
      { json },
    )
  }

  it('by reinforcement learning: a broken call trains', async () => {
    const { body } = await create([good, broken])
    const job = await service.waitForJob(body.id)
    expect(job.status, JSON.stringify(job)).toBe('completed')
    const [started] = await service.allEvents(body.id)
    expect(started?.data).toMatchObject({ num_trained_trajectories: 4, num_trainable_tokens: 12 })
    expect(started?.data).not.toHaveProperty('num_skipped_unrenderable')
  })

  it('by reinforcement learning: what the template refuses is left out and named; the others train', async () => {
    const plan = await create([good, refused], '?plan=true')
    const left = {
      reason: 'unrenderable',
      count: 2,
      examples: [0, 1].map(
        (t) => `trajectory_groups[1].trajectories[${t}] cannot be rendered by the chat template: not this`,
      ),
    }
    expect(plan.body.left_out).toContainEqual(left)
    const { body } = await create([good, refused])
    const job = await service.waitForJob(body.id)
    expect(job.status, JSON.stringify(job)).toBe('completed')
    expect(job.report?.left_out).toContainEqual(left)
    expect(job.warnings).toContainEqual(expect.stringMatching(/^2 conversations are refused by the chat template/))
    expect((await service.allEvents(body.id))[0]?.data).toMatchObject({
      num_trained_trajectories: 2,
      num_skipped_unrenderable: 2,
    })
  })

  it('by reinforcement learning: a job of nothing else fails, and so does its plan', async () => {
    const plan = await create([refused], '?plan=true')
    expect([plan.status, plan.body.error?.message]).toEqual([422, expect.stringContaining('not this')])
    const { body } = await create([refused])
    expect(await service.waitForJob(body.id)).toMatchObject({
      status: 'failed',
      error_message: expect.stringContaining('trajectory_groups[0].trajectories[0] cannot be rendered'),
    })
  })

  it('on rows: what the template refuses is left out and named; the others train', async () => {
    const row = (content: string) =>
      JSON.stringify({
        messages: [
          { role: 'user', content },
          { role: 'assistant', content: 'yes' },
        ],
      })
    const url = `data:application/jsonl;base64,${Buffer.from(`${row('a')}\n${row('refuse')}\n${row('b')}`).toString('base64')}`
    const { body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', {
      json: { model_id: modelId, training_data_url: url },
    })
    const job = await service.waitForJob(body.id)
    expect(job.status, JSON.stringify(job)).toBe('completed')
    expect(job.report?.left_out).toEqual([
      { reason: 'unrenderable', count: 1, examples: ['Line 2 cannot be rendered by the chat template: not this'] },
    ])
    expect(job.warnings).toContainEqual(expect.stringMatching(/^1 conversation is refused by the chat template/))
  })
})
