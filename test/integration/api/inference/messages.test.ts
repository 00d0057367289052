/**
 * `/v1/messages`: a scripted engine, whose answer repeats the last message, for blocks and events; the real one for what answers are
 * held to. Anthropic's own client for Node reads both.
 */
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Message, messageSchema } from '#plugins/messages/wire.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const MODEL = 'trainyard/tiny-random'
const SPARK = 'trainyard/spark'
const PATH = '/v1/messages'
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'
const weather = {
  name: 'weather',
  description: 'Tells it.',
  input_schema: {
    type: 'object' as const,
    properties: {
      city: { type: 'string', enum: ['Rome', 'Paris'] },
      days: { type: 'integer', minimum: 1, maximum: 9 },
    },
    required: ['city', 'days'],
    additionalProperties: false,
  },
}
const hello = { role: 'user' as const, content: 'hello' }
/** What every request here says unless it says otherwise. */
const usual = { model: MODEL, max_tokens: 200, messages: [hello] }

interface ErrorAnswer {
  readonly type: string
  readonly error: { readonly type: string; readonly message: string; readonly param: string | null }
  readonly request_id: string
}

let service: TestService
let client: Anthropic
beforeAll(async () => {
  service = await createTestService()
  client = new Anthropic({ apiKey: service.apiKey, baseURL: service.url, maxRetries: 0 })
})
afterAll(() => service.dispose())

async function send(json: object, to = service): Promise<Message> {
  const { status, body } = await to.json<Message>(PATH, { json: { ...usual, ...json } })
  expect(status, JSON.stringify(body)).toBe(200)
  return messageSchema.parse(body)
}

/** The names and data of a stream's events. */
async function eventsOf(json: object): Promise<Record<string, unknown>[]> {
  const response = await service.fetch(PATH, { json: { ...usual, stream: true, ...json } })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  return text
    .split('\n\n')
    .filter((block) => block.startsWith('event: '))
    .map((block) => {
      const [name, data] = block.split('\n')
      const event = JSON.parse(data?.slice('data: '.length) ?? '') as Record<string, unknown>
      expect(name).toBe(`event: ${String(event['type'])}`)
      return event
    })
}

/** The prompt that a request becomes, as chat shows the one of its messages. */
async function repeated(messages: readonly object[], more: object = {}): Promise<string> {
  const { content } = await send({ messages, ...more })
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('')
}

describe('a message', () => {
  it('has every field of the reference, and the text as a block', async () => {
    const message = await send({ system: 'Be brief.', metadata: { user_id: 'u' } })
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: MODEL,
      content: [{ type: 'text', text: 'base:hello', citations: null }],
      stop_reason: 'end_turn',
      stop_sequence: null,
    })
    expect(message.id).toMatch(/^msg_/)
    const { input_tokens: computed, cache_read_input_tokens: cached, output_tokens: written } = message.usage
    expect(computed + cached).toBe('system:Be brief.\nuser:hello'.length)
    expect(written).toBe('base:hello'.length + 1)
  })

  it('says why it ended', async () => {
    expect(await send({ max_tokens: 3 })).toMatchObject({ stop_reason: 'max_tokens', content: [{ text: 'bas' }] })
  })

  it('takes thinking, text and calls apart', async () => {
    const { content, stop_reason: reason } = await send({
      messages: [{ role: 'user', content: `text\n${CALL}` }],
      tools: [weather],
    })
    expect(content).toEqual([
      { type: 'text', text: expect.stringContaining('text'), citations: null },
      {
        type: 'tool_use',
        id: expect.stringMatching(/.+/),
        name: 'weather',
        input: { city: 'Rome', days: 2 },
        caller: { type: 'direct' },
      },
    ])
    expect(reason).toBe('tool_use')
  })

  it('that is cut off inside a call has it, as its stream has, and half of the input as a text', async () => {
    const body = { messages: [{ role: 'user' as const, content: CALL }], tools: [weather], max_tokens: 75 }
    const cut = await send(body)
    const streamed = await client.messages.stream({ ...usual, ...body }).finalMessage()
    for (const message of [cut, streamed]) {
      expect(message.stop_reason).toBe('max_tokens')
      expect(message.content.map(({ type }) => type)).toEqual(['text', 'tool_use'])
    }
    const input = cut.content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))
    expect(input).toEqual([{ INVALID_JSON: expect.stringMatching(/^\{"city"/) }])
  })
})

describe('what is said to the model', () => {
  it('are the texts of blocks, results of tools as messages of their own', async () => {
    const call = { type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Rome', days: 2 } }
    const result = { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'sun' }] }
    const conversation = [
      hello,
      { role: 'assistant', content: [{ type: 'text', text: 'I look.' }, call] },
      { role: 'user', content: [result] },
    ]
    expect(await repeated(conversation, { tools: [weather] })).toBe('base:sun')
  })

  it('joins turns of one role', async () => {
    const text = (word: string) => ({ role: 'user', content: [{ type: 'text', text: word }] })
    const one = await service.json<{ input_tokens: number }>(`${PATH}/count_tokens`, {
      json: { model: MODEL, messages: [{ role: 'user', content: [...text('a').content, ...text('b').content] }] },
    })
    const two = await service.json<{ input_tokens: number }>(`${PATH}/count_tokens`, {
      json: { model: MODEL, messages: [text('a'), text('b')] },
    })
    expect(two.body).toEqual(one.body)
  })

  it('is counted as the message does', async () => {
    const json = { model: MODEL, messages: [hello], system: [{ type: 'text', text: 'Be brief.' }], tools: [weather] }
    const { body } = await service.json<{ input_tokens: number }>(`${PATH}/count_tokens`, { json })
    const { usage } = await send(json)
    expect(body.input_tokens).toBe(usage.input_tokens + usage.cache_read_input_tokens)
  })
})

describe('what has no effect', () => {
  it('is named', async () => {
    const response = await service.fetch(PATH, {
      json: {
        ...usual,
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }] },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'weather', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: 'no', is_error: true }] },
        ],
        tools: [weather],
        thinking: { type: 'enabled', budget_tokens: 1024 },
        context_management: { edits: [] },
      },
    })
    expect(response.status).toBe(200)
    const named = response.headers.get('x-trainyard-ignored-fields')?.split(', ')
    expect(named?.sort()).toEqual([
      'context_management',
      'messages[].content[].cache_control',
      'messages[].content[].is_error',
      'thinking.budget_tokens',
    ])
  })

  it('are tools of the provider, where the client opts in', async () => {
    const tools = [weather, { type: 'bash_20250124', name: 'bash' }]
    const answer = await service.fetch(PATH, {
      json: { ...usual, tools },
      headers: { 'x-trainyard-drop-unsupported-tools': 'true' },
    })
    expect([answer.status, answer.headers.get('x-trainyard-ignored-fields')]).toEqual([200, 'tools[].bash_20250124'])
  })

  it.each<[string, object]>([
    ['container', { container: 'c' }],
    ['mcp_servers', { mcp_servers: [{ url: 'x' }] }],
    ['service_tier', { service_tier: 'priority' }],
    ['speed', { speed: 'fast' }],
    ['thinking.type', { thinking: { type: 'sometimes' } }],
    ['output_config.effort', { output_config: { effort: 'enormous' } }],
    ['output_config.format', { output_config: { format: { type: 'yaml' } } }],
    ['tools[0].type', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }],
    ['tool_choice.type', { tools: [weather], tool_choice: { type: 'some' } }],
    ['max_tokens', { max_tokens: 0 }],
    ['max_tokens', { max_tokens: undefined }],
    ['temperature', { temperature: -1 }],
    ['messages', { messages: [] }],
    ['messages[0].role', { messages: [{ role: 'tool', content: 'x' }] }],
    ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }],
    ['messages[0].content[0].type', { messages: [{ role: 'user', content: [{ type: 'tool_use', id: 'c' }] }] }],
    ['messages[0].content[0].text', { messages: [{ role: 'user', content: [{ type: 'text' }] }] }],
    [
      'messages[1].content[0].input',
      { messages: [hello, { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: [] }] }] },
    ],
    [
      'messages',
      { messages: [hello, { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] }] },
    ],
    ['system[0].type', { system: [{ type: 'image' }] }],
  ])('or cannot be honoured is refused by name: %s', async (param, more) => {
    const { status, body } = await service.json<ErrorAnswer>(PATH, { json: { ...usual, ...more } })
    expect(status, JSON.stringify(body)).toBe(400)
    expect(body).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
    expect(`${body.error.param} ${body.error.message}`).toContain(param)
  })
})

describe('a stream', () => {
  it.each<[string, object]>([
    ['text', {}],
    ['calls', { messages: [{ role: 'user', content: CALL }], tools: [weather] }],
    ['a cut answer', { max_tokens: 2 }],
  ])('of %s is the message that the whole answer is, as the client puts it together', async (_, json) => {
    const whole = await send(json)
    const events = await eventsOf(json)
    expect(events[0]).toMatchObject({ type: 'message_start', message: { content: [], stop_reason: null } })
    expect(events.slice(-2).map(({ type }) => type)).toEqual(['message_delta', 'message_stop'])
    const read = await client.messages.stream({ ...usual, ...json } as Anthropic.MessageStreamParams).finalMessage()
    const shape = ({ content, stop_reason, stop_sequence, usage }: Anthropic.Message) => ({
      content: content.map((block) => ('id' in block ? { ...block, id: '' } : block)),
      ended: [stop_reason, stop_sequence],
      written: usage.output_tokens,
      prompt: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
    })
    expect(shape(read)).toEqual(shape(whole as Anthropic.Message))
    const started = events.filter(({ type }) => type === 'content_block_start').map(({ index }) => index)
    expect(started).toEqual(whole.content.map((_each, index) => index))
    expect(events.filter(({ type }) => type === 'content_block_stop').map(({ index }) => index)).toEqual(started)
  })

  it('whose engine dies ends with an error', async () => {
    const events = await eventsOf({ messages: [{ role: 'user', content: 'CRASH' }] })
    expect(events.at(-1)).toMatchObject({
      type: 'error',
      error: { type: expect.any(String), message: expect.any(String) },
    })
  })
})

describe('a real model', () => {
  let real: TestService
  const ask = { model: SPARK, temperature: 0 }
  beforeAll(async () => {
    real = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels: [SPARK] })
  })
  afterAll(() => real.dispose())

  it('that has to be a call of one tool ends as a call', async () => {
    const message = await send(
      {
        ...ask,
        tools: [weather],
        tool_choice: { type: 'tool', name: 'weather' },
        messages: [{ role: 'user', content: 'How is the weather in Rome?' }],
      },
      real,
    )
    expect(message.stop_reason).toBe('tool_use')
    expect(message.content).toMatchObject([{ type: 'tool_use', name: 'weather', input: { city: expect.any(String) } }])
  })

  it('is held to a schema', async () => {
    const schema = {
      type: 'object',
      properties: { city: { enum: ['Rome', 'Oslo'] } },
      required: ['city'],
      additionalProperties: false,
    }
    const message = await send({ ...ask, output_config: { format: { type: 'json_schema', schema } } }, real)
    const [block] = message.content
    const { city } = JSON.parse(block?.type === 'text' ? block.text : '') as { city: string }
    expect(['Rome', 'Oslo']).toContain(city)
  })

  it('goes on behind what the assistant has begun', async () => {
    const begun = { role: 'assistant', content: 'It is' }
    const { body } = await real.json<{ input_tokens: number }>(`${PATH}/count_tokens`, {
      json: { model: SPARK, messages: [hello, begun] },
    })
    const rendered = await real.json<{ prompt: string }>('/apply-template', {
      json: { model: SPARK, messages: [hello, begun], continue_final_message: true, add_generation_prompt: false },
    })
    const tokens = await real.json<{ count: number }>('/tokenize', {
      json: { model: SPARK, messages: [hello, begun], continue_final_message: true, add_generation_prompt: false },
    })
    expect(rendered.body.prompt.endsWith('It is')).toBe(true)
    expect(body.input_tokens).toBe(tokens.body.count)
  })

  it('stops at a text, whole and streamed, as the client puts it together', async () => {
    const { content } = await send({ ...ask, max_tokens: 12 }, real)
    const said = content[0]?.type === 'text' ? content[0].text : ''
    const stop = said.trim().slice(2, 5)
    const request = { ...usual, ...ask, stop_sequences: ['\u0000', stop] }
    const whole = await send(request, real)
    expect(whole).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stop })
    const ours = new Anthropic({ apiKey: real.apiKey, baseURL: real.url, maxRetries: 0 })
    const read = await ours.messages.stream(request).finalMessage()
    expect(read.content).toEqual(whole.content)
    expect([read.stop_reason, read.stop_sequence]).toEqual(['stop_sequence', stop])
  })
})

describe("Anthropic's client for Node", () => {
  it('calls a tool, sends its result and reads the answer', async () => {
    const first = await client.messages.create({
      ...usual,
      messages: [{ role: 'user', content: CALL }],
      tools: [weather],
    })
    const call = first.content.find((block) => block.type === 'tool_use')
    expect(call).toMatchObject({ name: 'weather', input: { city: 'Rome', days: 2 } })
    const second = await client.messages.create({
      ...usual,
      tools: [weather],
      messages: [
        { role: 'user', content: CALL },
        { role: 'assistant', content: first.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call?.id ?? '', content: 'sunny' }] },
      ],
    })
    expect(second.content).toMatchObject([{ type: 'text', text: 'base:sunny' }])
    expect(second._request_id).toMatch(/.+/)
  })

  it('counts tokens', async () => {
    const { input_tokens: count } = await client.messages.countTokens({ model: MODEL, messages: [hello] })
    expect(count).toBe('user:hello'.length)
  })

  it('raises its own errors', async () => {
    const stranger = new Anthropic({ apiKey: 'x'.repeat(48), baseURL: service.url, maxRetries: 0 })
    await expect(stranger.messages.create(usual)).rejects.toBeInstanceOf(Anthropic.AuthenticationError)
    await expect(client.messages.create({ ...usual, model: 'none' })).rejects.toBeInstanceOf(Anthropic.NotFoundError)
    await expect(client.messages.create({ ...usual, max_tokens: 0 })).rejects.toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      requestID: expect.stringMatching(/.+/),
    })
  })
})
