/**
 * The OpenAI SDK, unchanged, talks to the service: completions, streams, n, logprobs, models, errors as its own classes.
 */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startService } from '../support/service/service-process.js'

const BASE = 'trainyard/spark'
let service: Awaited<ReturnType<typeof startService>>
let client: OpenAI

beforeAll(async () => {
  service = await startService()
  client = new OpenAI({ apiKey: service.key, baseURL: `${service.url}/v1`, maxRetries: 0 })
})

afterAll(async () => {
  await service.stop()
})

const messages = [{ role: 'user' as const, content: 'Hello there.' }]

describe('openai SDK', () => {
  test('a completion carries text, usage and a finish reason', async () => {
    const reply = await client.chat.completions.create({ model: BASE, messages, max_tokens: 8, seed: 7 })
    expect(reply.object).toBe('chat.completion')
    expect(reply.choices).toHaveLength(1)
    expect(['stop', 'length']).toContain(reply.choices[0]?.finish_reason)
    expect(reply.usage?.completion_tokens).toBeGreaterThan(0)
    expect(reply.usage?.total_tokens).toBe((reply.usage?.prompt_tokens ?? 0) + (reply.usage?.completion_tokens ?? 0))
  })

  test('a stream adds up to the same text as the answer without one', async () => {
    const request = { model: BASE, messages, max_tokens: 24, seed: 11, temperature: 0.9 }
    const whole = await client.chat.completions.create(request)
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let usage: OpenAI.CompletionUsage | null | undefined
    let finishReason: string | null = null
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      finishReason = chunk.choices[0]?.finish_reason ?? finishReason
      usage = chunk.usage ?? usage
    }
    expect(text).toBe(whole.choices[0]?.message.content)
    expect(finishReason).toBe(whole.choices[0]?.finish_reason)
    expect(usage?.completion_tokens).toBe(whole.usage?.completion_tokens)
  })

  test('n answers differ, and each token has a logprob', async () => {
    const reply = await client.chat.completions.create({
      model: BASE,
      messages,
      max_tokens: 12,
      n: 4,
      seed: 3,
      logprobs: true,
      top_logprobs: 2,
    })
    expect(reply.choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3])
    expect(new Set(reply.choices.map((choice) => choice.message.content)).size).toBeGreaterThan(1)
    for (const choice of reply.choices) {
      for (const entry of choice.logprobs?.content ?? []) {
        expect(entry.logprob).toBeLessThanOrEqual(0)
        expect(entry.top_logprobs).toHaveLength(2)
      }
    }
    const entries = reply.choices.reduce((sum, choice) => sum + (choice.logprobs?.content?.length ?? 0), 0)
    expect(entries).toBe(reply.usage?.completion_tokens)
  })

  test('eight requests at once are all answered as if alone', async () => {
    const ask = (seed: number) =>
      client.chat.completions.create({ model: BASE, messages, max_tokens: 16, seed, temperature: 1 })
    const together = await Promise.all(Array.from({ length: 8 }, (_, seed) => ask(seed)))
    for (const seed of [0, 5]) {
      const alone = await ask(seed)
      expect(together[seed]?.choices[0]?.message.content).toBe(alone.choices[0]?.message.content)
    }
  })

  test('models are listed', async () => {
    const names: string[] = []
    for await (const model of client.models.list()) names.push(model.id)
    expect(names).toContain(BASE)
  })

  test('errors come as the SDK’s own classes', async () => {
    await expect(client.chat.completions.create({ model: 'nobody/none', messages })).rejects.toBeInstanceOf(
      OpenAI.NotFoundError,
    )
    await expect(client.chat.completions.create({ model: BASE, messages, temperature: -1 })).rejects.toBeInstanceOf(
      OpenAI.BadRequestError,
    )
    const stranger = new OpenAI({ apiKey: 'wrong', baseURL: `${service.url}/v1`, maxRetries: 0 })
    await expect(stranger.chat.completions.create({ model: BASE, messages })).rejects.toBeInstanceOf(
      OpenAI.AuthenticationError,
    )
  })

  test('a dropped stream frees its slot', async () => {
    const controller = new AbortController()
    const stream = (await client.chat.completions.create(
      { model: BASE, messages, max_tokens: 1500, ignore_eos: true, stream: true } as never,
      { signal: controller.signal },
    )) as unknown as AsyncIterable<unknown>
    for await (const _ of stream) {
      controller.abort()
      break
    }
    const reply = await client.chat.completions.create({ model: BASE, messages, max_tokens: 4 })
    expect(reply.choices).toHaveLength(1)
  })
})
