/**
 * What older clients and other servers' clients say: `functions`, a schema beside `json_object`, tools of free text; and how calls that are
 * cut end, whole and streamed. The OpenAI client for Node asks.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { chatAnswers } from '../../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../../support/service/create-test-service.js'
import { templatedModel } from '../../../../support/service/templated-model.js'

let service: TestService
let folder: string
let client: OpenAI
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const hermes = readFileSync(join(packageRoot(), 'test/fixtures/thinking.jinja'), 'utf8')
  const baseModels = [await templatedModel(folder, 'hermes', hermes)]
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels })
  client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const parameters = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Oslo', 'Rome'] } },
  required: ['city'],
  additionalProperties: false,
}
const functions = [{ name: 'get_weather', description: 'Weather', parameters }]
const user = { role: 'user' as const, content: 'Weather in Oslo?' }
const usual = { model: 'hermes', messages: [user], temperature: 0, max_tokens: 60 }
const CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
const { both } = chatAnswers(() => service, { ...usual, logprobs: true, return_token_ids: true })

async function refusal(path: string, json: object): Promise<string> {
  const { status, body } = await service.json<{ error: { message: string } }>(path, { json: { ...usual, ...json } })
  expect(status, JSON.stringify(body)).toBe(400)
  return body.error.message
}

describe('functions', () => {
  it('forced: a call of that name, held to its schema, whole and streamed', async () => {
    const body = { ...usual, functions, function_call: { name: 'get_weather' } }
    const whole = (await client.chat.completions.create(body)).choices[0]
    const streamed = (await client.chat.completions.stream(body).finalChatCompletion()).choices[0]
    for (const choice of [whole, streamed]) {
      expect(choice?.finish_reason).toBe('stop')
      expect(choice?.message.function_call?.name).toBe('get_weather')
      expect(JSON.parse(choice?.message.function_call?.arguments ?? '')).toEqual({
        city: expect.stringMatching(/^(Oslo|Rome)$/),
      })
    }
    expect(streamed?.message.function_call).toEqual(whole?.message.function_call)
    expect(whole?.message).toMatchObject({ content: null, tool_calls: [] })
  })

  it('of the model’s own accord: in the form that was asked for, and back in it', async () => {
    const body = { ...usual, max_tokens: 200, functions, ...{ structured_outputs: { choice: [CALL] } } }
    const whole = (await client.chat.completions.create(body)).choices[0]
    const streamed = (await client.chat.completions.stream(body).finalChatCompletion()).choices[0]
    for (const choice of [whole, streamed]) {
      expect(choice?.finish_reason).toBe('function_call')
      expect(choice?.message.function_call).toEqual({ name: 'get_weather', arguments: '{"city": "Oslo"}' })
    }
    const messages = [user, whole!.message, { role: 'function' as const, name: 'get_weather', content: 'rain' }]
    const { status, body: shown } = await service.json<{ prompt: string }>('/apply-template', {
      json: { model: 'hermes', messages },
    })
    expect(status, JSON.stringify(shown)).toBe(200)
    expect(shown.prompt).toContain(CALL)
    expect(shown.prompt).toContain('<tool_response>\nrain\n</tool_response>')
    expect((await client.chat.completions.create({ ...usual, messages, functions })).choices).toHaveLength(1)
  })

  it('shown and not called, where none is wanted', async () => {
    const body = {
      ...usual,
      max_tokens: 200,
      functions,
      function_call: 'none' as const,
      ...{ structured_outputs: { choice: [CALL] } },
    }
    const { choices } = await client.chat.completions.create(body)
    expect(choices[0]?.message).toMatchObject({ content: CALL, function_call: null })
  })

  it.each<[string, object, string]>([
    [
      'beside tools',
      { functions, tools: [{ type: 'function', function: functions[0] }] },
      'functions cannot be combined with tools',
    ],
    ['a choice without them', { function_call: { name: 'get_weather' } }, '`functions` must be set'],
    [
      'a choice of none of them',
      { functions, function_call: { name: 'other' } },
      'does not match any of the specified',
    ],
    [
      'another choice',
      { functions, function_call: 'always' },
      'function_call must be "none", "auto" or {"name": …}, got "always".',
    ],
    [
      'a call that is none',
      { messages: [user, { role: 'assistant', function_call: { arguments: '' } }] },
      'messages[1] has a function_call that is no object with a name.',
    ],
  ])('refused by name: %s', async (_, more, words) => {
    expect(await refusal('/v1/chat/completions', more)).toContain(words)
  })
})

it('json_object with a schema is held to it, whole and streamed', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer', minimum: 1, maximum: 3 } },
    required: ['n'],
    additionalProperties: false,
  }
  const { choices } = await both({ response_format: { type: 'json_object', schema } })
  expect(JSON.parse(choices[0]?.message.content ?? '')).toEqual({
    n: expect.toSatisfy((n: number) => n >= 1 && n <= 3),
  })
  expect(await refusal('/v1/chat/completions', { response_format: { type: 'json_object', schema: 'x' } })).toContain(
    'response_format.schema',
  )
})

it('tools of free text are refused in words of their own, in chat and responses', async () => {
  const words =
    'a tool of type "custom" takes free text as its input, and calls here have JSON arguments: offer a tool of type "function"'
  expect(await refusal('/v1/chat/completions', { tools: [{ type: 'custom', custom: { name: 'code' } }] })).toContain(
    words,
  )
  const { status, body } = await service.json<{ error: { message: string; param: string } }>('/v1/responses', {
    json: { model: 'hermes', input: 'x', tools: [{ type: 'custom', name: 'code' }] },
  })
  expect([status, body.error.param]).toEqual([400, 'tools[0].type'])
  expect(body.error.message).toContain(words)
})

describe('a named call that is cut', () => {
  const tools = [{ type: 'function', function: functions[0] }]
  const named = { tools, tool_choice: { type: 'function', function: { name: 'get_weather' } } }

  it.each([1, 4, 9])('after %i tokens ends alike, whole and streamed', async (budget) => {
    const { choices } = await both({ ...named, max_tokens: budget })
    expect(choices[0]?.finish_reason).toBe('length')
    expect(choices[0]?.message.tool_calls).toHaveLength(1)
    expect(choices[0]?.message.content ?? '').toBe('')
  })
})
