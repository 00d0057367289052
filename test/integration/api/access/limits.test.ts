/**
 * Limits of a service as its settings set them: requests a minute and at once, jobs that wait, sizes of bodies.
 */
import OpenAI, { RateLimitError } from 'openai'
import { afterEach, describe, expect, it } from 'vitest'
import type { CreatedKey } from '#contract/wire/access/keys.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
afterEach(() => service.dispose())

const RL = '/v1/preview/training-jobs'
type Refusal = { error: { code: string; message: string; details: Record<string, unknown> } }

describe('requests a minute', () => {
  it('beyond the limit are 429 with what to wait for, for that key alone', async () => {
    service = await createTestService({ requestsPerMinute: 3 })
    const made = await service.json<CreatedKey>('/v1/preview/keys', { json: { scope: 'read' } })
    const headers = { authorization: `Bearer ${made.body.key}` }
    for (const remaining of ['2', '1', '0']) {
      const answer = await service.fetch('/v1/whoami', { headers })
      expect(answer.status).toBe(200)
      expect(answer.headers.get('x-ratelimit-limit-requests')).toBe('3')
      expect(answer.headers.get('x-ratelimit-remaining-requests')).toBe(remaining)
      expect(answer.headers.get('x-ratelimit-reset-requests')).toMatch(/^\d+(ms|s)$|^1m0s$/)
    }
    const refused = await service.fetch('/v1/whoami', { headers })
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(Number(refused.headers.get('retry-after-ms'))).toBeGreaterThan(0)
    expect((await refused.json()) as Refusal).toMatchObject({ error: { code: 'rate_limit_exceeded' } })
    expect((await service.fetch('/v1/whoami')).status).toBe(200)
    expect((await service.fetch('/v1/health', { headers })).status).toBe(200)
    const client = new OpenAI({ apiKey: made.body.key, baseURL: `${service.url}/v1`, maxRetries: 0 })
    const chat = client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'x' }] })
    await expect(chat).rejects.toBeInstanceOf(RateLimitError)
  })
})

describe('requests at once', () => {
  it('beyond the limit are 429, and a stream counts until its end', async () => {
    service = await createTestService({ maxConcurrentRequests: 2 })
    const gone = new AbortController()
    const stream = () =>
      service.fetch('/v1/chat/completions', {
        json: { messages: [{ role: 'user', content: 'FOREVER SLOW' }], stream: true },
        signal: gone.signal,
      })
    const open = [await stream(), await stream()]
    expect(open.map((answer) => answer.status)).toEqual([200, 200])
    const refused = await service.json<Refusal>('/v1/whoami')
    expect([refused.status, refused.body.error.message]).toEqual([429, 'Concurrency limit reached for requests'])
    gone.abort()
    await expect.poll(async () => (await service.fetch('/v1/whoami')).status, { timeout: 20_000 }).toBe(200)
  })
})

describe('a stock client', () => {
  it('waits as long as a refusal says, asks again, and gets its answer', async () => {
    service = await createTestService({ maxConcurrentRequests: 1 })
    const gone = new AbortController()
    const busy = { messages: [{ role: 'user', content: 'FOREVER SLOW' }], stream: true }
    expect((await service.fetch('/v1/chat/completions', { json: busy, signal: gone.signal })).status).toBe(200)
    const attempts: { readonly status: number; readonly waitMs: number; readonly atMs: number }[] = []
    const client = new OpenAI({
      apiKey: service.apiKey,
      baseURL: `${service.url}/v1`,
      maxRetries: 10,
      fetch: async (url, init) => {
        const startedMs = performance.now()
        const response = await fetch(url, init)
        const waitMs = Number(response.headers.get('retry-after')) * 1000
        attempts.push({ status: response.status, waitMs, atMs: attempts.length === 0 ? performance.now() : startedMs })
        gone.abort()
        return response
      },
    })
    expect((await client.models.list()).data.length).toBeGreaterThan(0)
    const [first, second] = attempts
    expect([first?.status, attempts.at(-1)?.status]).toEqual([429, 200])
    expect(first?.waitMs).toBeGreaterThan(0)
    // timers may be a millisecond early
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThanOrEqual((first?.waitMs ?? 0) - 5)
  })
})

describe('jobs that wait', () => {
  it('beyond the limit are 429 with Retry-After', async () => {
    service = await createTestService({ maxQueuedJobs: 2, trainWorkers: 0 })
    const model = await service.createModel()
    const submit = (reward: number) =>
      service.fetch(RL, { json: { model_id: model, trajectory_groups: [sampleGroup([reward, 0])] } })
    expect([(await submit(1)).status, (await submit(2)).status]).toEqual([200, 200])
    const refused = await submit(3)
    expect([refused.status, Number(refused.headers.get('retry-after'))]).toEqual([429, 30])
    expect((await refused.json()) as Refusal).toMatchObject({
      error: { code: 'queue_full', message: 'the queue holds 2 unfinished jobs already' },
    })
  })
})

describe('bodies', () => {
  it('are as large as the setting of their route', async () => {
    const sizes = { maxRequestBodyBytes: 65_536, maxChatBodyBytes: 131_072, maxGroupBytes: 262_144 }
    service = await createTestService({ ...sizes, maxTrajectoriesBytes: 524_288, maxUploadBytes: 1_048_576 })
    const model = await service.createModel()
    const text = (bytes: number) => 'x'.repeat(bytes)
    const group = (bytes: number) => ({ ...sampleGroup(), metadata: { text: text(bytes) } })
    const rl = (groups: object[]) => service.fetch(RL, { json: { model_id: model, trajectory_groups: groups } })
    const model2 = { project: 'p', name: 'm', base_model: 'trainyard/tiny-random' }
    const chat = (content: string) =>
      service.fetch('/v1/chat/completions', { json: { messages: [{ role: 'user', content }], max_tokens: 1 } })
    const upload = (bytes: number) =>
      service.fetch('/v1/files?filename=a', {
        method: 'POST',
        body: text(bytes),
        headers: { 'content-type': 'application/octet-stream' },
      })
    expect((await service.fetch('/v1/preview/models', { json: { ...model2, more: text(60_000) } })).status).toBe(200)
    expect((await service.fetch('/v1/preview/models', { json: { ...model2, more: text(70_000) } })).status).toBe(413)
    expect((await chat(text(120_000))).status).toBe(400)
    expect((await chat(text(140_000))).status).toBe(413)
    expect((await rl([group(200_000), group(200_000)])).status).toBe(200)
    expect((await rl([group(300_000)])).status).toBe(413)
    expect((await rl([group(200_000), group(200_000), group(200_000)])).status).toBe(413)
    expect((await upload(1_000_000)).status).toBe(200)
    expect((await upload(1_100_000)).status).toBe(413)
  })
})
