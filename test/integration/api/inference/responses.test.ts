/**
 * `/v1/responses`: a scripted engine, whose answer repeats the last message, for items, events and what is kept; the real one for
 * what answers are held to. OpenAI's client for Node and the Vercel AI SDK with its default provider, which speaks this format.
 */
import { createOpenAI } from '@ai-sdk/openai'
import { generateObject, generateText, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Response as ResponseObject, responseSchema } from '#plugins/responses/wire.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const MODEL = 'trainyard/tiny-random'
const SPARK = 'trainyard/spark'
const PATH = '/v1/responses'
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'
const parameters = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Rome', 'Paris'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['city', 'days'],
  additionalProperties: false,
}
const weather = { type: 'function', name: 'weather', description: 'Tells it.', parameters, strict: true } as const

interface Event {
  readonly type: string
  readonly sequence_number: number
  readonly delta?: string
  readonly logprobs?: readonly unknown[]
  readonly output_index?: number
  readonly item?: { readonly id: string; readonly type: string; readonly status: string }
  readonly response?: ResponseObject
}

let service: TestService
let client: OpenAI
beforeAll(async () => {
  service = await createTestService()
  client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
})
afterAll(() => service.dispose())

async function respond(json: object): Promise<ResponseObject> {
  const { status, body } = await service.json<ResponseObject>(PATH, { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return responseSchema.parse(body)
}

async function eventsOf(json: object): Promise<Event[]> {
  const response = await service.fetch(PATH, { json: { stream: true, ...json } })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  return text
    .split('\n\n')
    .filter((block) => block.startsWith('event: '))
    .map((block) => {
      const [name, data] = block.split('\n')
      const event = JSON.parse(data?.slice('data: '.length) ?? '') as Event
      expect(name).toBe(`event: ${event.type}`)
      return event
    })
}

/** What stays the same when a request is sent again. */
function shapeOf({ output, usage, status }: ResponseObject): unknown {
  return {
    status,
    usage,
    output: output.map(({ id, ...item }) => ({ ...item, ...('call_id' in item ? { call_id: '' } : {}), id: '' })),
  }
}

describe('a response', () => {
  it('has every field of the reference, and the text as a message', async () => {
    const response = await respond({ model: MODEL, input: 'hello', instructions: 'Be brief.', metadata: { a: 'b' } })
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      model: MODEL,
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      output: [{ type: 'message', role: 'assistant', status: 'completed', content: [{ text: 'base:hello' }] }],
      // newer clients insist on both details, and record nothing without them
      usage: {
        input_tokens: 'system:Be brief.\nuser:hello'.length,
        input_tokens_details: { cached_tokens: expect.any(Number), cache_write_tokens: 0 },
        output_tokens: 'base:hello'.length + 1,
      },
    })
    expect(response.id).toMatch(/^resp_/)
    expect(response.output[0]?.id).toMatch(/^msg_/)
  })

  it('that is cut off is incomplete and says why', async () => {
    expect(await respond({ input: 'hello', max_output_tokens: 3 })).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete', content: [{ text: 'bas' }] }],
    })
  })

  it('that is cut off inside a call has half a call, which is incomplete, and goes on without it', async () => {
    const json = { model: MODEL, input: CALL, tools: [weather], max_output_tokens: 75 }
    const response = await respond(json)
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'message' }, { type: 'function_call', name: 'weather', status: 'incomplete' }],
    })
    const events = await eventsOf(json)
    const ended = events.at(-1)?.response
    expect(ended === undefined ? null : shapeOf(ended)).toEqual(shapeOf(response))
    const types = events.map(({ type }) => type)
    expect(types).toContain('response.function_call_arguments.delta')
    expect(types).not.toContain('response.function_call_arguments.done')
    expect(events.filter(({ type }) => type === 'response.output_item.done').at(-1)?.item?.status).toBe('incomplete')
    const next = await respond({ model: MODEL, input: 'go on', previous_response_id: response.id, tools: [weather] })
    expect(next.output).toMatchObject([{ type: 'message', content: [{ text: 'base:go on' }] }])
  })

  it('that is cut off behind the arguments of a call has the call', async () => {
    const { output, status } = await respond({ model: MODEL, input: CALL, tools: [weather], max_output_tokens: 82 })
    expect(status).toBe('incomplete')
    expect(output.at(-1)).toMatchObject({ type: 'function_call', status: 'completed' })
  })

  it('takes the parts of an answer apart: reasoning, text, calls', async () => {
    const response = await respond({ input: `<think>why</think>text\n${CALL}`, tools: [weather] })
    // the scripted answer begins with "base:", which is before the reasoning
    const types = response.output.map(({ type }) => type)
    expect(types).toContain('function_call')
    const call = response.output.find((item) => item.type === 'function_call')
    expect(call).toMatchObject({ name: 'weather', status: 'completed', call_id: expect.stringMatching(/.+/) })
    expect(JSON.parse(call?.type === 'function_call' ? call.arguments : '')).toEqual({ city: 'Rome', days: 2 })
  })

  it('has log-probabilities when included, for every token of the text', async () => {
    for (const more of [{ include: ['message.output_text.logprobs'] }, { top_logprobs: 2 }]) {
      const { output } = await respond({ input: 'abc', ...more })
      const [item] = output
      const logprobs = item?.type === 'message' ? (item.content[0]?.logprobs ?? []) : []
      expect(logprobs.map(({ token }) => token).join('')).toBe('base:abc')
      expect(logprobs[0]?.top_logprobs).toHaveLength('top_logprobs' in more ? 2 : 0)
    }
  })

  it.each<[string, object]>([
    ['background', { background: true }],
    ['conversation', { conversation: 'c' }],
    ['prompt', { prompt: { id: 'p' } }],
    ['truncation', { truncation: 'auto' }],
    ['service_tier', { service_tier: 'flex' }],
    ['reasoning.summary', { reasoning: { summary: 'detailed' } }],
    ['reasoning.effort', { reasoning: { effort: 'enormous' } }],
    ['include', { include: ['everything'] }],
    ['text.format', { text: { format: { type: 'yaml' } } }],
    ['tools[0].type', { tools: [{ type: 'web_search' }] }],
    ['tools[0].name', { tools: [{ type: 'function' }] }],
    ['tool_choice', { tools: [weather], tool_choice: { type: 'mcp' } }],
    [
      'tool_choice.mode',
      { tools: [weather], tool_choice: { type: 'allowed_tools', mode: 'any', tools: [{ name: 'weather' }] } },
    ],
    [
      'tool_choice.tools[0]',
      { tools: [weather], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ name: 'other' }] } },
    ],
    ['tool_choice', { tool_choice: 'required' }],
    ['max_output_tokens', { max_output_tokens: 0 }],
    ['top_logprobs', { top_logprobs: 21 }],
    ['input[0].type', { input: [{ type: 'web_search_call' }] }],
    ['input[0].id', { input: [{ type: 'item_reference', id: 'msg_no' }] }],
    ['input[0]', { input: [{ type: 'function_call' }] }],
    ['input input must be a text or a list with at least one item', { input: [] }],
    ['input input must be a text', { input: null }],
    ['temperature', { temperature: -1 }],
    ['metadata', { metadata: { a: 'x'.repeat(513) } }],
    ['metadata', { metadata: { ['k'.repeat(65)]: '' } }],
    ['input[0].content[0]', { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }],
    [
      'input[1].content[1]',
      {
        instructions: 'Be brief.',
        input: [
          { role: 'user', content: 'a' },
          { role: 'user', content: [{ type: 'input_text', text: 'a' }, { type: 'input_audio' }] },
        ],
      },
    ],
    ['input[0].output[0]', { input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'file' }] }] }],
  ])('refuses what it cannot honour by name: %s', async (param, more) => {
    const { status, body } = await service.json<{ error: { param: string; message: string } }>(PATH, {
      json: { input: 'x', ...more },
    })
    expect(status, JSON.stringify(body)).toBe(400)
    expect(`${body.error.param} ${body.error.message}`).toContain(param)
  })

  it('leaves tools of other servers out where the client opts in, and names them', async () => {
    const tools = [weather, { type: 'web_search' }, { type: 'custom', name: 'apply_patch' }, { type: 'web_search' }]
    const ask = (value: string) =>
      service.fetch(PATH, { json: { input: 'x', tools }, headers: { 'x-trainyard-drop-unsupported-tools': value } })
    const answer = await ask('true')
    expect(answer.status, await answer.text()).toBe(200)
    expect(answer.headers.get('x-trainyard-ignored-fields')).toBe('tools[].web_search, tools[].custom')
    for (const value of ['false', 'maybe']) {
      const refusal = await ask(value)
      expect(refusal.status, value).toBe(400)
      expect(await refusal.text(), value).toContain('x-trainyard-drop-unsupported-tools: true')
    }
  })

  it('names a verbosity that no template reads', async () => {
    const answer = await service.fetch(PATH, { json: { input: 'x', text: { verbosity: 'low' } } })
    expect([answer.status, answer.headers.get('x-trainyard-ignored-fields')]).toEqual([200, 'text.verbosity'])
  })

  it('names fields of items that nothing reads, and none of an answer that is sent back', async () => {
    const first = await respond({ input: CALL, tools: [weather] })
    const back = [
      { role: 'user', content: 'Weather?' },
      ...first.output,
      { type: 'function_call_output', call_id: 'c', output: '9' },
    ]
    const plain = await service.fetch(PATH, { json: { input: back } })
    expect([plain.status, plain.headers.get('x-trainyard-ignored-fields')]).toEqual([200, null])
    const input = [
      { role: 'user', content: [{ type: 'input_text', text: 'Hello.', mood: 1 }], color: 'red' },
      { type: 'function_call', call_id: 'c', name: 'weather', arguments: '{}', mode: 2 },
      { type: 'function_call_output', call_id: 'c', output: 'ok', is_error: true },
    ]
    const { headers } = await service.fetch(PATH, { json: { input } })
    const names = ['color', 'content[].mood', 'mode', 'is_error'].map((name) => `input[].${name}`)
    expect(headers.get('x-trainyard-ignored-fields')).toBe(names.join(', '))
  })

  it('of a request whose fields ask for what is anyway is answered', async () => {
    await respond({
      input: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
      ],
      truncation: 'disabled',
      service_tier: 'auto',
      text: { format: { type: 'text' }, verbosity: 'medium' },
      tool_choice: 'auto',
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      stream_options: { include_obfuscation: false },
      max_tool_calls: 3,
      prompt_cache_key: 'k',
      safety_identifier: 's',
      user: 'u',
    })
  })
})

describe('a stream', () => {
  it.each<[string, object]>([
    ['text', { input: 'hello' }],
    ['calls', { input: CALL, tools: [weather] }],
    [
      'a named call',
      { input: '{"city": "Rome", "days": 2}', tools: [weather], tool_choice: { type: 'function', name: 'weather' } },
    ],
    ['a cut answer', { input: 'hello', max_output_tokens: 2 }],
    ['log-probabilities', { input: 'hello', top_logprobs: 1 }],
    ['log-probabilities of text that was held back', { input: 'a <tool_call b', tools: [weather], top_logprobs: 1 }],
  ])('of %s ends with the response that the whole answer is', async (_, json) => {
    const whole = await respond(json)
    const events = await eventsOf(json)
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_each, i) => i))
    expect(events.slice(0, 2).map(({ type }) => type)).toEqual(['response.created', 'response.in_progress'])
    const last = events.at(-1)
    expect(last?.type).toBe(`response.${whole.status}`)
    expect(shapeOf(responseSchema.parse(last?.response))).toEqual(shapeOf(whole))
    // every item is added once and done once, in order
    const of = (type: string) => events.filter((event) => event.type === `response.output_item.${type}`)
    expect(of('added').map(({ output_index }) => output_index)).toEqual(whole.output.map((_each, i) => i))
    // nothing of its text is in it before it comes
    expect(of('added').every(({ item }) => !JSON.stringify(item).includes('base'))).toBe(true)
    expect(of('done').map(({ item }) => item?.id)).toEqual(of('added').map(({ item }) => item?.id))
    for (const [index, item] of (last?.response?.output ?? []).entries()) {
      const deltas = events.filter((event) => event.output_index === index && event.type.endsWith('.delta'))
      const text = item.type === 'function_call' ? item.arguments : item.content.map((part) => part.text).join('')
      expect(deltas.map(({ delta }) => delta).join('')).toBe(text)
      if (item.type !== 'message') continue
      const logprobs = item.content.flatMap((part) => part.logprobs)
      expect(deltas.flatMap((event) => event.logprobs ?? [])).toEqual(logprobs)
      if ('top_logprobs' in json) expect(logprobs.map(({ token }) => token).join('')).toBe(text)
    }
  })

  it('whose engine dies ends with response.failed', async () => {
    const events = await eventsOf({ input: 'CRASH' })
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error' } },
    })
  })
})

describe('what is kept', () => {
  it('a response goes on from another, also several in a row', async () => {
    const first = await respond({ input: 'one', instructions: 'not kept' })
    const second = await respond({ input: 'two', previous_response_id: first.id })
    expect(second.usage?.input_tokens).toBe('user:one\nassistant:base:one\nuser:two'.length)
    const third = await respond({ input: 'three', previous_response_id: second.id })
    expect(third.usage?.input_tokens).toBe(
      'user:one\nassistant:base:one\nuser:two\nassistant:base:two\nuser:three'.length,
    )
    const input = await service.json<{ data: { content: unknown; id: string }[] }>(`${PATH}/${third.id}/input_items`)
    expect(input.body.data.map(({ content }) => content)[0]).toEqual([{ type: 'input_text', text: 'three' }])
    expect(input.body.data).toHaveLength(5)
  })

  it('its input is listed in pages, either way round, as items of the client have it', async () => {
    const texts = Array.from({ length: 25 }, (_, i) => `text ${i}`)
    const items = texts.map((content, i) => ({
      role: i % 2 === 0 ? ('user' as const) : ('assistant' as const),
      content,
    }))
    const { id } = await client.responses.create({ model: MODEL, input: [...items, { role: 'user', content: 'end' }] })
    for (const query of [{}, { limit: 7 }, { limit: 26, order: 'asc' as const }, { limit: 1, order: 'asc' as const }]) {
      const found: string[] = []
      for await (const item of client.responses.inputItems.list(id, query)) {
        const [part] = item.type === 'message' ? item.content : []
        found.push(part !== undefined && 'text' in part ? part.text : '')
      }
      const expected = [...texts, 'end']
      expect(found).toEqual('order' in query ? expected : expected.reverse())
    }
    const page = await service.json<{ data: unknown[]; has_more: boolean }>(`${PATH}/${id}/input_items`)
    expect([page.body.data.length, page.body.has_more]).toEqual([20, true])
    for (const query of ['limit=0', 'order=up', 'after=none']) {
      const { status, body } = await service.json<{ error: { param: string } }>(`${PATH}/${id}/input_items?${query}`)
      expect([status, body.error.param]).toEqual([400, query.split('=')[0]])
    }
  })

  it('is not streamed once it is there', async () => {
    const { id } = await respond({ input: 'one' })
    const { status, body } = await service.json<{ error: { param: string } }>(`${PATH}/${id}?stream=true`)
    expect([status, body.error.param]).toEqual([400, 'stream'])
    expect((await service.json(`${PATH}/${id}?stream=false`)).status).toBe(200)
  })

  it('is got and deleted; nothing is kept with store false', async () => {
    const kept = await respond({ input: 'one' })
    expect((await service.json(`${PATH}/${kept.id}`)).body).toEqual(kept)
    const deleted = await service.json(`${PATH}/${kept.id}`, { method: 'DELETE' })
    expect(deleted.body).toEqual({ id: kept.id, object: 'response', deleted: true })
    const unkept = await respond({ input: 'one', store: false })
    for (const id of [kept.id, unkept.id, 'resp_none']) {
      expect((await service.json(`${PATH}/${id}`)).status).toBe(404)
      const next = await service.json<{ error: { param: string } }>(PATH, {
        json: { input: 'x', previous_response_id: id },
      })
      expect([next.status, next.body.error.param]).toEqual([404, 'previous_response_id'])
    }
  })

  it('counts the tokens of an input as the response does', async () => {
    const json = { input: 'hello', instructions: 'Be brief.' }
    const { body } = await service.json(`${PATH}/input_tokens`, { json })
    const { usage } = await respond(json)
    expect(body).toEqual({ object: 'response.input_tokens', input_tokens: usage?.input_tokens })
  })
})

describe('the OpenAI client for Node', () => {
  it('creates, streams, and goes on with the output of a call', async () => {
    const first = await client.responses.create({ model: MODEL, input: CALL, tools: [weather] })
    const call = first.output.find((item) => item.type === 'function_call')
    if (call === undefined) throw new Error('no call')
    const second = await client.responses.create({
      model: MODEL,
      previous_response_id: first.id,
      input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }],
      tools: [weather],
    })
    expect(second.output_text).toBe('base:sunny')
    const stream = client.responses.stream({ model: MODEL, input: 'hello' })
    let text = ''
    stream.on('response.output_text.delta', (event) => {
      text += event.delta
    })
    const final = await stream.finalResponse()
    expect([final.output_text, text]).toEqual(['base:hello', 'base:hello'])
    expect((await client.responses.retrieve(final.id)).id).toBe(final.id)
    await client.responses.delete(final.id)
    await expect(client.responses.retrieve(final.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError)
  })
})

describe('the Vercel AI SDK with its default provider', () => {
  const model = () => createOpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1` })(MODEL)
  const tools = {
    weather: tool({
      description: 'Tells it.',
      inputSchema: z.object({ city: z.string(), days: z.number() }),
      execute: async ({ city, days }) => `${city}: ${days} days of sun`,
    }),
  }

  it('runs a tool loop of several steps', async () => {
    const result = await generateText({ model: model(), prompt: CALL, tools, stopWhen: stepCountIs(4) })
    expect(result.steps).toHaveLength(2)
    expect(result.steps[0]?.toolCalls[0]).toMatchObject({ toolName: 'weather', input: { city: 'Rome', days: 2 } })
    expect(result.text).toContain('Rome: 2 days of sun')
  })

  it('runs it streamed', async () => {
    const result = streamText({ model: model(), prompt: CALL, tools, stopWhen: stepCountIs(4) })
    let text = ''
    for await (const piece of result.textStream) text += piece
    expect(text).toContain('Rome: 2 days of sun')
    expect(await result.finishReason).toBe('stop')
    expect((await result.totalUsage).outputTokens).toBeGreaterThan(0)
  })
})

describe('what answers are held to', () => {
  let real: TestService
  let strict: OpenAI
  beforeAll(async () => {
    // a random model writes white space for ever
    real = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels: [SPARK] })
    strict = new OpenAI({ apiKey: real.apiKey, baseURL: `${real.url}/v1`, maxRetries: 0 })
  })
  afterAll(() => real.dispose())
  const Answer = z.object({ verdict: z.enum(['yes', 'no']) })

  it('takes the arguments of a call as text or as the object, and refuses anything else by name', async () => {
    const callWith = (given: unknown) => [
      { type: 'function_call', call_id: 'c', name: 'weather', arguments: given },
      { type: 'function_call_output', call_id: 'c', output: 'ok' },
    ]
    const tokens = async (given: unknown) =>
      (
        await real.json<{ input_tokens: number }>(`${PATH}/input_tokens`, {
          json: { model: SPARK, input: callWith(given) },
        })
      ).body.input_tokens
    const empty = await tokens('{}')
    expect(await tokens({ city: 'Rome' })).toBe(await tokens('{"city": "Rome"}'))
    expect(await tokens({ city: 'Rome' })).toBeGreaterThan(empty)
    const { status, body } = await real.json(PATH, { json: { model: SPARK, input: callWith(['Rome']) } })
    expect([status, JSON.stringify(body)]).toEqual([
      400,
      expect.stringContaining('input[0].arguments must be a string'),
    ])
  })

  it('parse gives an object of the schema, plain and streamed', async () => {
    const request = {
      model: SPARK,
      input: 'Well?',
      max_output_tokens: 400,
      temperature: 0,
      text: { format: zodTextFormat(Answer, 'answer') },
    }
    const parsed = (await strict.responses.parse(request)).output_parsed
    expect(Answer.parse(parsed)).toEqual(parsed)
    const streamed = await strict.responses.stream(request).finalResponse()
    expect(streamed.output_parsed).toEqual(parsed)
  })

  it('a required call has arguments of its schema', async () => {
    const parameters = {
      type: 'object',
      properties: { a: { enum: ['x'] } },
      required: ['a'],
      additionalProperties: false,
    }
    const seen: unknown[] = []
    // white space between the parts may fill a budget: then another seed
    for (let seed = 1; seed <= 10 && seen.length === 0; seed++) {
      const request = {
        model: SPARK,
        input: 'Well?',
        max_output_tokens: 400,
        seed,
        tools: [{ type: 'function' as const, name: 'f', strict: true, parameters }],
        tool_choice: { type: 'function' as const, name: 'f' },
      }
      const { output, status } = await strict.responses.create(request)
      const [call] = output
      if (status === 'completed' && call?.type === 'function_call') seen.push(JSON.parse(call.arguments))
    }
    expect(seen).toEqual([{ a: 'x' }])
  })

  it('the AI SDK’s generateObject gets its object', async () => {
    const provider = createOpenAI({ apiKey: real.apiKey, baseURL: `${real.url}/v1` })
    const { object } = await generateObject({
      model: provider(SPARK),
      schema: Answer,
      prompt: 'Well?',
      temperature: 0,
      maxOutputTokens: 400,
    })
    expect(Answer.parse(object)).toEqual(object)
  })
})
