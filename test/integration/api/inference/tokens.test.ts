/**
 * Text and tokens without generation, and what the root answers: vLLM's and llama.cpp's shapes on the tiny model.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageVersion } from '#base/util/package-root.js'
import {
  type TokenizeResponse,
  tokenizeResponseSchema,
  tokenizerInfoResponseSchema,
} from '#contract/wire/inference/tokens.js'
import { createClient } from '#sdk/client/client.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 0 })
})
afterAll(() => service.dispose())

interface Failure {
  error: { message: string; param: string | null; type: string }
}

async function post<T>(path: string, json: object): Promise<T> {
  const { status, body } = await service.json<T>(path, { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

const tokenize = async (json: object): Promise<TokenizeResponse> =>
  tokenizeResponseSchema.parse(await post('/tokenize', json))

const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'naïve 😀?' },
]

describe('/tokenize', () => {
  it('of a text: ids, their number, and spellings when asked', async () => {
    const plain = await tokenize({ prompt: 'abc 😀', add_special_tokens: false })
    expect(plain).toMatchObject({ count: plain.tokens.length, token_strs: null })
    expect(plain.max_model_len).toBeGreaterThan(0)
    const spelled = await tokenize({ prompt: 'abc 😀', add_special_tokens: false, return_token_strs: true })
    expect(spelled.tokens).toEqual(plain.tokens)
    expect(spelled.token_strs).toHaveLength(plain.count)
  })

  it('of a conversation: exactly what chat computes', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
    for (const more of [{}, { tools }, { add_generation_prompt: false }, { chat_template_kwargs: { x: 1 } }]) {
      const { tokens } = await tokenize({ messages, ...more })
      const chat = await post<{ prompt_token_ids: number[] }>('/v1/chat/completions', {
        messages,
        max_tokens: 1,
        return_token_ids: true,
        ...more,
        ...('tools' in more ? { tool_choice: 'none' } : {}),
      })
      expect(chat.prompt_token_ids).toEqual(tokens)
    }
  })

  it.each([
    ['both', { prompt: 'a', messages }],
    ['neither', {}],
    ['chat_template', { messages, chat_template: 'x' }],
    ['messages', { messages: [] }],
    ['messages', { messages: 'x' }],
  ])('is refused by name: %s', async (name, json) => {
    const { status, body } = await service.json<Failure>('/tokenize', { json })
    expect(status).toBe(400)
    expect(JSON.stringify(body.error)).toContain(name)
  })
})

it('/tokenize says how long a list may be, and how long one that was not counted to its end is at least', async () => {
  const { status, body } = await service.json<Failure>('/tokenize', { json: { prompt: 'a b '.repeat(300_000) } })
  expect(status).toBe(400)
  expect(body.error.message).toMatch(/^prompt must have at most 262144 tokens, got at least \d{6,}/)
})

describe('/detokenize', () => {
  it('gives the text back', async () => {
    const { tokens } = await tokenize({ prompt: 'naïve 😀 text', add_special_tokens: false })
    expect(await post('/detokenize', { tokens })).toEqual({ prompt: 'naïve 😀 text' })
    expect(await post('/detokenize', { tokens: [] })).toEqual({ prompt: '' })
  })

  it('refuses ids that the vocabulary lacks', async () => {
    for (const tokens of [[999_999], [-1], ['x'], 5]) {
      const { status, body } = await service.json<Failure>('/detokenize', { json: { tokens } })
      expect(status).toBe(400)
      expect(body.error.message).toMatch(/tokens|vocabulary/)
    }
  })
})

describe('/apply-template and /tokenizer_info', () => {
  it('the rendered text tokenizes to what the conversation tokenizes to', async () => {
    const { prompt } = await post<{ prompt: string }>('/apply-template', { messages })
    expect(prompt).toContain('naïve 😀?')
    const { tokens } = await tokenize({ prompt, add_special_tokens: false })
    expect(tokens).toEqual((await tokenize({ messages })).tokens)
  })

  it('tell harnesses the tokens at the borders and the template', async () => {
    const { status, body } = await service.json('/tokenizer_info')
    expect(status).toBe(200)
    const info = tokenizerInfoResponseSchema.parse(body)
    expect(info.eos_token).toBe('<|im_end|>')
    expect(info.chat_template).toContain('{%')
    expect((await service.json('/tokenizer_info?model=nobody')).status).toBe(404)
  })

  it('of a long conversation leave other requests their turn', async () => {
    const long = Array.from({ length: 4000 }, (_, i) => ({ role: 'user', content: `line ${i}` }))
    // the machine may hold the short one up until the long one is done: not every time
    await until(async () => {
      const work = tokenize({ messages: long })
      const first = await Promise.race([work.then(() => 'long'), tokenize({ prompt: 'a' }).then(() => 'short')])
      expect((await work).count).toBeGreaterThan(20_000)
      return first === 'short'
    }, 'a short one answered before a long one')
  })
})

it('the typed client has them, and completions', async () => {
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey })
  const { tokens } = await client.text.tokenize({ prompt: 'abc', add_special_tokens: false })
  expect((await client.text.detokenize({ tokens })).prompt).toBe('abc')
  expect((await client.text.applyTemplate({ messages })).prompt).toContain('Be brief.')
  const { choices, usage } = await client.completions.create({ prompt: [tokens, tokens], max_tokens: 2 })
  expect([choices.length, usage.prompt_tokens]).toEqual([2, 2 * tokens.length])
})

describe('the root', () => {
  it('answers probes without a key and everything else with one', async () => {
    const open = (path: string, init?: RequestInit) => fetch(service.url + path, init)
    for (const path of ['/health', '/ping']) {
      const response = await open(path)
      expect([response.status, await response.text()]).toEqual([200, ''])
    }
    expect((await open('/ping', { method: 'POST' })).status).toBe(200)
    expect(await (await open('/version')).json()).toEqual({ version: packageVersion() })
    for (const path of ['/tokenize', '/detokenize', '/apply-template', '/invocations']) {
      const response = await open(path, {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json' },
      })
      expect([response.status, await response.json()]).toEqual([401, { error: 'Unauthorized' }])
    }
    expect((await open('/tokenizer_info')).status).toBe(401)
  })

  it('takes the key in X-Api-Key too; Authorization goes first', async () => {
    const whoami = (headers: Record<string, string>) => fetch(`${service.url}/v1/whoami`, { headers })
    expect((await whoami({ 'x-api-key': service.apiKey })).status).toBe(200)
    expect((await whoami({ 'x-api-key': 'wrong' })).status).toBe(401)
    expect((await whoami({ 'x-api-key': service.apiKey, authorization: 'Bearer wrong' })).status).toBe(401)
  })

  it('says 503 while the engine does not run, and 200 when it is back', async () => {
    const faulty = await createTestService({ trainWorkers: 0 })
    try {
      const status = async () => {
        for (const pid of faulty.enginePids()) process.kill(pid, 'SIGKILL')
        return (await fetch(`${faulty.url}/health`)).status
      }
      // the second death in a row is followed by a pause
      await expect.poll(status, { timeout: 30_000, interval: 20 }).toBe(503)
      const chat = () => faulty.json('/v1/chat/completions', { json: { messages } })
      await expect.poll(async () => (await chat()).status, { timeout: 60_000 }).toBe(200)
      expect((await fetch(`${faulty.url}/health`)).status).toBe(200)
    } finally {
      await faulty.dispose()
    }
  })
})
