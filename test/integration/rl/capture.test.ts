/** Stock clients through a recording `fetch`, against a real service: what they did is a trajectory that trains. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLogger } from '../../../src/base/logging/logger.js'
import { capture, type LocalService, startLocal, TrainableModel, Trajectory, TrajectoryGroup } from '../../../src/rl.js'

let local: LocalService
let model: TrainableModel
beforeAll(async () => {
  local = await startLocal({ baseModels: ['trainyard/tiny-random'], logger: createLogger({ level: 'silent' }) })
  model = await new TrainableModel(local.client, { name: 'captured', baseModel: 'trainyard/tiny-random' }).register()
})
afterAll(() => local.close())

/** What the service checks of a sampled answer: an id and a log-probability for each token, and the prompt's ids. */
function expectSampled(trajectory: Trajectory, answers: number): void {
  expect(trajectory.choices).toHaveLength(answers)
  for (const choice of trajectory.choices) {
    expect(choice.token_ids?.length).toBeGreaterThan(0)
    expect(choice.logprobs?.content).toHaveLength(choice.token_ids?.length ?? 0)
    expect(choice.prompt_token_ids?.length).toBeGreaterThan(0)
  }
}

describe('the openai client', () => {
  test('two turns, the second one streamed, are one history; another conversation is a side history', async () => {
    const trajectory = new Trajectory()
    const { baseURL, apiKey } = local.client.connection()
    const openai = capture(new OpenAI({ baseURL, apiKey: apiKey ?? '' }), trajectory)
    const ask = { model: model.inferenceName(), max_completion_tokens: 5 }
    const question = { role: 'user' as const, content: 'Say yes.' }
    const first = await openai.chat.completions.create({ ...ask, messages: [question] })
    const answer = first.choices[0]?.message.content ?? ''
    const stream = await openai.chat.completions.create({
      ...ask,
      messages: [question, { role: 'assistant', content: answer }, { role: 'user', content: 'Again.' }],
      stream: true,
    })
    let streamed = ''
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? ''
    expectSampled(trajectory, 2)
    expect(trajectory.answer).toBe(streamed)
    await openai.chat.completions.create({ ...ask, messages: [{ role: 'user', content: 'Something else.' }] })
    expect(trajectory.histories.map(({ items }) => items.length)).toEqual([4, 2])
    // Not chat: passes through untouched.
    expect((await openai.models.list()).data.length).toBeGreaterThan(0)
    expectSampled(trajectory, 2)
  })
})

describe('the Vercel AI SDK', () => {
  test('generateText and streamText are recorded', async () => {
    const trajectory = new Trajectory()
    const provider = createOpenAICompatible({ name: 'trainyard', ...model.connection(trajectory) })
    const options = { model: provider(model.inferenceName()), maxOutputTokens: 5 }
    const { text, response } = await generateText({ ...options, prompt: 'Say yes.' })
    const stream = streamText({
      ...options,
      messages: [{ role: 'user', content: 'Say yes.' }, ...response.messages, { role: 'user', content: 'Again.' }],
    })
    const second = await stream.text
    expectSampled(trajectory, 2)
    expect(trajectory.messages.map(({ content }) => content)).toEqual(['Say yes.', text, 'Again.', second])
  })
})

test('a connection without a trajectory only reaches the model, and one answer comes where nobody says how many', async () => {
  const openai = new OpenAI(model.connection())
  const messages = [{ role: 'user' as const, content: 'Say yes.' }]
  const { choices } = await openai.chat.completions.create({ model: model.inferenceName(), messages, max_tokens: 5 })
  expect(choices).toHaveLength(1)
  const sampled = await model.sample(messages)
  expect(sampled).toHaveLength(1)
  expectSampled(sampled[0] as Trajectory, 1)
})

test('truncated answers are drawn from at most 512 tokens, and say which', async () => {
  const messages = [{ role: 'user' as const, content: 'Say yes.' }]
  const recorded = new Trajectory()
  const openai = new OpenAI(model.connection(recorded))
  await openai.chat.completions.create({ model: model.inferenceName(), messages, max_tokens: 5, top_p: 0.9 })
  const [sampled] = await model.sample(messages, { maxTokens: 5, body: { top_p: 0.9 } })
  for (const { choices } of [recorded, sampled as Trajectory]) {
    expect(choices[0]?.sampling).toMatchObject({ temperature: 1, top_p: 0.9, top_k: 512, unmodelled: [] })
    expect(JSON.parse(JSON.stringify(choices[0]))).toHaveProperty('sampling.kept.counts')
  }
})

test('what was recorded trains', async () => {
  const trajectories = await Promise.all(
    [0, 1].map(async (reward) => {
      const trajectory = new Trajectory()
      const openai = new OpenAI(model.connection(trajectory))
      await openai.chat.completions.create({
        model: model.inferenceName(),
        max_completion_tokens: 5,
        messages: [{ role: 'user', content: 'Say yes.' }],
      })
      trajectory.reward = reward
      return trajectory
    }),
  )
  const result = await model.train([new TrajectoryGroup(trajectories)], { learningRate: 1e-3 })
  expect(result).toMatchObject({ step: 1, trainedGroups: 1 })
  expect(result.metrics['loss']).toBeTypeOf('number')
})
