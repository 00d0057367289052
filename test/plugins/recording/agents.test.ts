/**
 * Stock agents that know nothing of recording, by their base URL alone: OpenAI's tool runner, Anthropic's, the Vercel AI SDK
 * in chat and responses, whole and streamed. What they did trains, as the trainer sees what was sampled.
 */
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod'
import { generateText, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { CreatedRollout } from '#plugins/recording/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const BASE = 'trainyard/spark'
const QUESTION = 'How many letters has "tree"?'
/** Turns of each agent: the tool must be called in each. */
const TURNS = 2
let service: TestService
let modelId: string
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 1, baseModels: [BASE] })
  const json = { project: 'p', name: 'agent', base_model: BASE }
  modelId = (await service.json<{ id: string }>('/v1/preview/models', { json })).body.id
})
afterAll(() => service.dispose())

interface Item {
  readonly message?: object
  readonly prompt_token_ids: number[]
  readonly token_ids: number[]
}
interface Recorded {
  readonly status: string
  readonly trajectory: {
    readonly messages_and_choices: Item[]
    readonly tools?: object[]
    readonly additional_histories: object[]
    readonly metrics: Record<string, number>
  }
}

const inputSchema = z.object({ text: z.enum(['tree', 'house']) })
const count = async ({ text }: z.infer<typeof inputSchema>) => String(text.length)

/** Each runs its loop to the end, against nothing but an address. */
const agents: Readonly<Record<string, (rollout: CreatedRollout) => Promise<unknown>>> = {
  'runTools of openai': ({ base_url: baseURL }) => runTools(baseURL, false),
  'runTools of openai, streamed': ({ base_url: baseURL }) => runTools(baseURL, true),
  'the tool runner of Anthropic': ({ base_url: url }) => toolRunner(url, false),
  'the tool runner of Anthropic, streamed': ({ base_url: url }) => toolRunner(url, true),
  'the Vercel AI SDK in chat': async ({ base_url: baseURL }) => {
    await generateText(aiOptions(createOpenAI({ baseURL, apiKey: 'unused' }).chat('gpt-5')))
  },
  'the Vercel AI SDK in responses, streamed': async ({ base_url: baseURL }) => {
    const result = streamText(aiOptions(createOpenAI({ baseURL, apiKey: 'unused' }).responses('gpt-5')))
    for await (const _ of result.fullStream);
  },
}

async function runTools(baseURL: string, stream: boolean): Promise<void> {
  const client = new OpenAI({ baseURL, apiKey: 'unused', maxRetries: 0 })
  const parameters = {
    type: 'object',
    properties: { text: { type: 'string', enum: ['tree', 'house'] } },
    required: ['text'],
  }
  const request = {
    model: 'gpt-5',
    messages: [{ role: 'user' as const, content: QUESTION }],
    tools: [
      {
        type: 'function' as const,
        function: { name: 'count', description: 'Counts.', parameters, parse: JSON.parse, function: count },
      },
    ],
    tool_choice: 'required' as const,
    parallel_tool_calls: false,
    max_tokens: 200,
  }
  const options = { maxChatCompletions: TURNS }
  await (stream
    ? client.chat.completions.runTools({ ...request, stream }, options).done()
    : client.chat.completions.runTools(request, options).done())
}

async function toolRunner(url: string, stream: boolean): Promise<void> {
  const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: 'unused', maxRetries: 0 })
  const runner = client.beta.messages.toolRunner({
    model: 'claude-sonnet-5',
    max_tokens: 200,
    messages: [{ role: 'user', content: QUESTION }],
    tools: [betaZodTool({ name: 'count', description: 'Counts.', inputSchema, run: count })],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    max_iterations: TURNS,
    stream,
  })
  for await (const message of runner) if (Symbol.asyncIterator in message) for await (const _ of message);
}

const aiOptions = (model: Parameters<typeof generateText>[0]['model']) => ({
  ...{
    model,
    prompt: QUESTION,
    toolChoice: 'required' as const,
    stopWhen: stepCountIs(TURNS),
    maxRetries: 0,
    maxOutputTokens: 200,
  },
  providerOptions: { openai: { parallelToolCalls: false } },
  tools: { count: tool({ description: 'Counts.', inputSchema, execute: count }) },
})

async function open(task: string): Promise<CreatedRollout> {
  const json = { model: 'p/agent', run: 'agents', task }
  const { status, body } = await service.json<CreatedRollout>('/v1/preview/rollouts', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

describe('a stock agent', () => {
  it.each(Object.entries(agents))('%s: its turns are one history of what was sampled', async (name, run) => {
    for (const score of [0, 1]) {
      const rollout = await open(name)
      await run(rollout)
      const json = { rewards: { right: { score } } }
      await service.json(`/v1/preview/rollouts/${rollout.id}/finish`, { json })
      const { body } = await service.json<Recorded>(`/v1/preview/rollouts/${rollout.id}`)
      expect(body.status, JSON.stringify(body)).toBe('finished')
      const { trajectory } = body
      const choices = trajectory.messages_and_choices.filter(({ message }) => message !== undefined)
      expect(choices).toHaveLength(TURNS)
      expect(trajectory.additional_histories).toEqual([])
      // a second pass of the template says the same of the first prompt; each later one holds all before it
      const question = { role: 'user', content: QUESTION }
      const { body: second } = await service.json<{ tokens: number[] }>('/tokenize', {
        json: { model: BASE, messages: [question], tools: trajectory.tools },
      })
      expect(choices[0]?.prompt_token_ids).toEqual(second.tokens)
      for (const [i, { prompt_token_ids: prompt }] of choices.slice(1).entries()) {
        const sofar = [...(choices[i]?.prompt_token_ids ?? []), ...(choices[i]?.token_ids ?? [])]
        expect(prompt.slice(0, sofar.length)).toEqual(sofar)
      }
    }
  })

  it('trains by the rows that were recorded, with the sampler and the trainer at one', async () => {
    const text = await (await service.fetch('/v1/preview/rollout-groups?run=agents')).text()
    const groups = text.split('\n').filter((line) => line !== '')
    expect(groups).toHaveLength(Object.keys(agents).length)
    const json = { model_id: modelId, trajectory_groups: groups.map((line) => JSON.parse(line) as object) }
    const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
    const job = await service.waitForJob(body.id)
    expect(job.status, JSON.stringify(job)).toBe('completed')
    const steps = (await service.allEvents(body.id)).flatMap(({ data }) => {
      const step = data as { kl_div?: number; importance_ratio_mean?: number }
      return step.kl_div === undefined ? [] : [step]
    })
    expect(steps.length).toBeGreaterThan(0)
    for (const { kl_div: kl, importance_ratio_mean: ratio } of steps) {
      expect(Math.abs(kl ?? 1)).toBeLessThan(1e-6)
      expect(Math.abs((ratio ?? 0) - 1)).toBeLessThan(1e-4)
    }
  })
})
