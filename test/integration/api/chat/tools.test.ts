/**
 * Tools over HTTP: a scripted engine whose answer repeats the question for what is read out of answers, the real one for what
 * answers are held to, and the official client for how it all fits together.
 */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const CHAT = '/v1/chat/completions'
const parameters = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Rome', 'Paris'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['city', 'days'],
  additionalProperties: false,
}
const weather = { type: 'function', function: { name: 'weather', description: 'Tells it.', parameters } } as const
const ping = { type: 'function', function: { name: 'ping' } } as const
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'
/** OpenAI's newer choice: some of the tools. */
const allowing = (mode: 'auto' | 'required' | 'none', ...names: readonly string[]) => ({
  type: 'allowed_tools' as const,
  allowed_tools: { mode, tools: names.map((name) => ({ type: 'function', function: { name } })) },
})

describe('what is read out of an answer', () => {
  let service: TestService
  beforeAll(async () => {
    service = await createTestService()
  })
  afterAll(() => service.dispose())
  const body = (more: object) => ({ messages: [{ role: 'user', content: CALL }], tools: [weather], ...more })

  it('tools without tool_choice, as SDKs send them, give calls', async () => {
    const { body: answer } = await service.json<ChatResponse>(CHAT, { json: body({}) })
    expect(answer.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: 'base:',
        tool_calls: [{ type: 'function', function: { name: 'weather', arguments: '{"city": "Rome", "days": 2}' } }],
      },
    })
    expect(answer.choices[0]?.message.tool_calls[0]?.id).toMatch(/^chatcmpl-tool-[0-9a-f]{32}$/)
  })

  it('a stream gives the same call in pieces, with every token id', async () => {
    const response = await service.fetch(CHAT, { json: body({ stream: true, return_token_ids: true }) })
    const chunks = (await response.text())
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as ChatChunk)
    const calls = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? [])
    expect(calls[0]).toMatchObject({ index: 0, type: 'function', function: { name: 'weather' } })
    expect(JSON.parse(calls.map((call) => call.function.arguments ?? '').join(''))).toEqual({ city: 'Rome', days: 2 })
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('tool_calls')
    // the scripted engine's token is a character, and its last one is the end
    expect(chunks.flatMap((chunk) => chunk.choices[0]?.token_ids ?? []).length).toBeGreaterThan(CALL.length)
  })

  it('tool_choice none leaves the text as it is', async () => {
    const { body: answer } = await service.json<ChatResponse>(CHAT, { json: body({ tool_choice: 'none' }) })
    expect(answer.choices[0]?.message).toMatchObject({ content: `base:${CALL}`, tool_calls: [] })
  })

  it.each<[object, string]>([
    [{ tool_choice: 'auto', tools: [] }, '`tools` must be set'],
    [{ tool_choice: 'sometimes' }, 'Invalid value for `tool_choice`: sometimes!'],
    [{ tool_choice: { type: 'function' } }, 'Invalid value for `function`'],
    [{ tool_choice: { type: 'function', function: {} } }, 'Expected field `name` in `function`'],
    [{ tool_choice: { type: 'function', function: { name: 'other' } } }, 'does not match any of the specified `tools`'],
    [{ tool_choice: { type: 'custom', custom: { name: 'weather' } } }, 'Invalid value for `type`: "custom"'],
    [{ tool_choice: allowing('none', 'weather') }, 'allowed_tools.mode must be "auto" or "required", got "none"'],
    [{ tool_choice: allowing('auto') }, 'allowed_tools.tools must be a list of at least one tool'],
    [{ tool_choice: allowing('auto', 'weather', 'ping') }, 'allowed_tools.tools[1] must name one of the specified'],
    [{ tool_choice: { type: 'allowed_tools' } }, 'allowed_tools.tools must be a list'],
    [{ tools: [{ type: 'retrieval', function: { name: 'x' } }] }, 'tools[0].type must be "function", got "retrieval"'],
    [
      { tool_choice: { type: 'function', function: { name: 'weather' } }, structured_outputs: { regex: 'a' } },
      'constraints for structured outputs or tools, not both',
    ],
    ...(['required', { type: 'function', function: { name: 'list' } }] as const).map(
      (tool_choice): [object, string] => [
        { tool_choice, tools: [ping, { type: 'function', function: { name: 'list', parameters: { type: 'array' } } }] },
        'tools[1].function.parameters must be the schema of an object, got array',
      ],
    ),
    [
      {
        tool_choice: 'required',
        tools: ['a', 'b'].map((name) => ({
          type: 'function',
          function: { name, parameters: { type: 'object', $defs: { x: { const: name } }, properties: {} } },
        })),
      },
      "Tool definition 'x' has multiple schemas",
    ],
  ])('%j is refused', async (more, words) => {
    const { status, body: answer } = await service.json<{ error: { message: string } }>(CHAT, { json: body(more) })
    expect(status).toBe(400)
    expect(answer.error.message).toContain(words)
  })
})

describe('what an answer is held to', () => {
  let service: TestService
  let client: OpenAI
  beforeAll(async () => {
    service = await createTestService({ scripted: false, threads: 1 })
    client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
  })
  afterAll(() => service.dispose())
  const request = {
    model: 'trainyard/tiny-random',
    messages: [{ role: 'user' as const, content: 'What is the weather?' }],
    max_tokens: 300,
    seed: 3,
    // a random model writes white space for ever
    logit_bias: { '9': -100, '10': -100, '13': -100, '32': -100 },
  }

  it('a required call has a name of the list and arguments of its schema', async () => {
    const answer = await client.chat.completions.create({ ...request, tools: [weather, ping], tool_choice: 'required' })
    const [choice] = answer.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    for (const call of choice?.message.tool_calls ?? []) {
      if (call.type !== 'function') throw new Error('not a function')
      expect(['weather', 'ping']).toContain(call.function.name)
      const given = JSON.parse(call.function.arguments)
      if (call.function.name === 'ping') expect(given).toEqual({})
      else expect(given).toEqual({ city: expect.stringMatching(/^(Rome|Paris)$/), days: expect.any(Number) })
    }
  })

  it('a response format is for text: beside calls that must come it says nothing', async () => {
    const asked = { ...request, tools: [weather], seed: 1, parallel_tool_calls: false }
    const response_format = { type: 'json_schema' as const, json_schema: { name: 'n', schema: { type: 'boolean' } } }
    for (const tool_choice of ['required', { type: 'function', function: { name: 'weather' } }] as const) {
      const callsOf = async (more: object) => {
        const answer = await client.chat.completions.create({ ...asked, tool_choice, ...more })
        return answer.choices[0]?.message.tool_calls?.map((call) => 'function' in call && call.function)
      }
      const calls = await callsOf({ response_format })
      expect(calls).toEqual(await callsOf({}))
      expect(calls).toMatchObject([{ name: 'weather', arguments: expect.stringContaining('city') }])
    }
  })

  it('allowed tools are the only ones, whether a call is asked for or not', async () => {
    const tools = [weather, ping]
    for (const seed of [1, 2, 3]) {
      const { allowed_tools, type } = allowing('required', 'ping')
      const tool_choice = { type, allowed_tools: { ...allowed_tools, mode: 'required' as const } }
      const answer = await client.chat.completions.create({ ...request, seed, tools, tool_choice })
      const names = (answer.choices[0]?.message.tool_calls ?? []).map(
        (call) => 'function' in call && call.function.name,
      )
      expect(new Set(names)).toEqual(new Set(['ping']))
    }
    const promptOf = async (more: object) => {
      const json = { ...request, ...more, max_tokens: 1, return_token_ids: true }
      return (await service.json<ChatResponse>(CHAT, { json })).body.prompt_token_ids
    }
    const [allowed, alone, all] = await Promise.all([
      promptOf({ tools, tool_choice: allowing('auto', 'ping') }),
      promptOf({ tools: [ping] }),
      promptOf({ tools }),
    ])
    expect(allowed).toEqual(alone)
    expect(allowed).not.toEqual(all)
  })

  it('a named call is its arguments, streamed as plain', async () => {
    const named: OpenAI.ChatCompletionCreateParamsNonStreaming = {
      ...request,
      tools: [weather],
      tool_choice: { type: 'function', function: { name: 'weather' } },
    }
    const plain: OpenAI.ChatCompletion = await client.chat.completions.create(named)
    const streamed: OpenAI.ChatCompletion = await client.chat.completions
      .stream({ ...named, stream: true })
      .finalChatCompletion()
    for (const answer of [plain, streamed]) {
      const call = answer.choices[0]?.message.tool_calls?.[0]
      if (call?.type !== 'function') throw new Error('no call')
      expect(call.function.name).toBe('weather')
      expect(JSON.parse(call.function.arguments).city).toMatch(/^(Rome|Paris)$/)
      expect(answer.choices[0]?.finish_reason).toBe('stop')
    }
    const argumentsOf = (answer: OpenAI.ChatCompletion) => {
      const call = answer.choices[0]?.message.tool_calls?.[0]
      return call?.type === 'function' ? JSON.parse(call.function.arguments) : null
    }
    expect(argumentsOf(streamed)).toEqual(argumentsOf(plain))
  })
})
