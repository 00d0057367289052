/**
 * Agent frameworks as their users install them: LangChain.js and the AI SDK, each with tools and structured output.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { HumanMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { tool as aiTool, generateObject, generateText, stepCountIs, streamText } from 'ai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startService } from '../support/service/service-process.js'

const MODEL = 'trainyard/spark'
const trip = z.object({ city: z.enum(['Paris', 'Rome']), length: z.enum(['a day', 'a week']) })

let service: Awaited<ReturnType<typeof startService>>
let baseURL: string
beforeAll(async () => {
  service = await startService()
  baseURL = `${service.url}/v1`
})
afterAll(() => service.stop())

describe('LangChain.js', () => {
  const create = () =>
    new ChatOpenAI({ model: MODEL, apiKey: service.key, configuration: { baseURL }, temperature: 0, maxTokens: 64 })

  test('answers, and streams the same answer', async () => {
    const model = create()
    const answer = await model.invoke('Hello there.')
    expect(answer.usage_metadata).toMatchObject({ output_tokens: expect.any(Number) })
    let text = ''
    for await (const chunk of await model.stream('Hello there.')) text += String(chunk.content)
    expect(text).toBe(answer.content)
  })

  test('calls a tool and goes on with its result', async () => {
    const weather = tool(({ city }) => `sunny in ${city}`, {
      name: 'weather',
      description: 'The weather of a city',
      schema: z.object({ city: z.enum(['Paris', 'Rome']) }),
    })
    const model = create()
    const question = new HumanMessage('How is the weather?')
    const turn = await model.bindTools([weather], { tool_choice: 'weather' }).invoke([question])
    expect(turn.tool_calls).toHaveLength(1)
    const [call] = turn.tool_calls ?? []
    if (call === undefined) throw new Error('no call')
    const result = await weather.invoke({ ...call, type: 'tool_call' })
    expect(String(result.content)).toMatch(/^sunny in (?:Paris|Rome)$/)
    const last = await model.invoke([question, turn, result])
    expect(String(last.content)).not.toBe('')
  })

  test.each(['jsonSchema', 'functionCalling'] as const)('structured output by %s fits the schema', async (method) => {
    const answer = await create().withStructuredOutput(trip, { method, name: 'trip' }).invoke('Plan a trip.')
    expect(trip.parse(answer)).toEqual(answer)
  })
})

describe('AI SDK', () => {
  const model = () =>
    createOpenAICompatible({ name: 'trainyard', baseURL, apiKey: service.key, supportsStructuredOutputs: true })(MODEL)

  test('generateObject fits the schema', async () => {
    const request = { model: model(), schema: trip, prompt: 'Plan a trip.', maxOutputTokens: 64 }
    const { object } = await generateObject(request)
    expect(trip.parse(object)).toEqual(object)
  })

  test('calls a tool by itself and goes on with its result, streamed too', async () => {
    const asked: string[] = []
    const weather = aiTool({
      description: 'The weather of a city',
      inputSchema: z.object({ city: z.enum(['Paris', 'Rome']) }),
      execute: async ({ city }) => {
        asked.push(city)
        return `sunny in ${city}`
      },
    })
    const request = {
      model: model(),
      prompt: 'How is the weather?',
      tools: { weather },
      maxOutputTokens: 64,
      temperature: 0,
      stopWhen: stepCountIs(2),
      // a call first, then words
      prepareStep: ({ stepNumber }: { readonly stepNumber: number }) =>
        ({ toolChoice: stepNumber === 0 ? ({ type: 'tool', toolName: 'weather' } as const) : 'none' }) as const,
    }
    const whole = await generateText(request)
    const streamed = streamText(request)
    let text = ''
    for await (const part of streamed.textStream) text += part
    const steps = [whole.steps, await streamed.steps]
    for (const [first, second] of steps) {
      expect(first?.toolResults).toMatchObject([{ toolName: 'weather', output: expect.stringMatching(/^sunny in /) }])
      expect(second?.text).not.toBe('')
    }
    expect(asked).toHaveLength(2)
    expect(new Set(asked).size).toBe(1)
    expect(text).toBe(whole.text)
  })
})
