/**
 * Tool loops and helpers of stock clients over chat completions. The scripted engine repeats the last message: a question that
 * spells a call is answered by that call, its result ends the loop.
 */
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const MODEL = 'trainyard/tiny-random'
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
const SUNNY = 'Rome is sunny'

let service: TestService
let client: OpenAI
beforeAll(async () => {
  service = await createTestService()
  client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
})
afterAll(() => service.dispose())

const messages = [{ role: 'user' as const, content: CALL }]

describe('the OpenAI client for Node', () => {
  const tools = [
    {
      type: 'function' as const,
      function: {
        name: 'weather',
        description: 'Tells it.',
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
        parse: JSON.parse,
        function: async ({ city }: { city: string }) => `${city} is sunny`,
      },
    },
  ]

  it('runTools calls the function and goes on with its result', async () => {
    const runner = client.chat.completions.runTools({ model: MODEL, messages, tools })
    expect(await runner.finalContent()).toBe(`base:${SUNNY}`)
    expect(runner.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
  })

  it('runTools streams', async () => {
    const runner = client.chat.completions.runTools({ model: MODEL, messages, tools, stream: true })
    let text = ''
    runner.on('content', (delta) => {
      text += delta
    })
    expect(await runner.finalContent()).toBe(`base:${SUNNY}`)
    expect(text).toContain(SUNNY)
  })

  it('stream and parse give an object of the schema', async () => {
    // a random model writes white space for ever
    const model = 'trainyard/spark' as const
    const real = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels: [model] })
    try {
      const openai = new OpenAI({ apiKey: real.apiKey, baseURL: `${real.url}/v1`, maxRetries: 0 })
      const Answer = z.object({ verdict: z.enum(['yes', 'no']) })
      const request = {
        model,
        messages: [{ role: 'user' as const, content: 'Well?' }],
        max_tokens: 400,
        temperature: 0,
        response_format: zodResponseFormat(Answer, 'answer'),
      }
      const parsed = (await openai.chat.completions.parse(request)).choices[0]?.message.parsed
      expect(Answer.parse(parsed)).toEqual(parsed)
      const streamed = await openai.chat.completions.stream(request).finalChatCompletion()
      expect(streamed.choices[0]?.message.parsed).toEqual(parsed)
    } finally {
      await real.dispose()
    }
  })
})

describe.each([
  [
    'openai-compatible',
    () => createOpenAICompatible({ name: 'local', apiKey: service.apiKey, baseURL: `${service.url}/v1` })(MODEL),
  ],
  ['openai, chat', () => createOpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1` }).chat(MODEL)],
])('the Vercel AI SDK with the provider %s', (_, model) => {
  const tools = {
    weather: tool({
      description: 'Tells it.',
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `${city} is sunny`,
    }),
  }

  it('runs a tool loop of several steps', async () => {
    const result = await generateText({ model: model(), messages, tools, stopWhen: stepCountIs(4) })
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(result.steps[0]?.toolCalls[0]).toMatchObject({ toolName: 'weather', input: { city: 'Rome' } })
    expect(result.text).toContain(SUNNY)
  })

  it('runs it streamed', async () => {
    const result = streamText({ model: model(), messages, tools, stopWhen: stepCountIs(4) })
    let text = ''
    for await (const piece of result.textStream) text += piece
    expect(text).toContain(SUNNY)
    expect(await result.finishReason).toBe('stop')
  })
})
