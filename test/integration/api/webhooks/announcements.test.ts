/**
 * Webhooks of loops, fine-tuning jobs and batches, by OpenAI's client: it checks the signature and reads the event.
 */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { CreatedWebhook } from '#contract/wire/webhooks/webhooks.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

const MODEL = 'trainyard/tiny-random'
const messages = [{ role: 'user' as const, content: 'Say e.' }]

let receiver: Server
let received: { readonly headers: IncomingHttpHeaders; readonly body: string; readonly path: string }[] = []
let service: TestService
let client: OpenAI
let host: string
beforeAll(async () => {
  receiver = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      received.push({ headers: request.headers, body, path: request.url ?? '' })
      response.end()
    })
  })
  await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done))
  host = `127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const plugins = { webhooks: { pollMs: 20, retryMs: [30] }, batches: { flushMs: 20 }, loops: { pollMs: 3_600_000 } }
  service = await createTestService({ webhookHosts: [host], tuning: { plugins } })
  client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.apiKey, maxRetries: 0 })
})
beforeEach(() => {
  received = []
})
afterAll(async () => {
  await service.dispose()
  receiver.closeAllConnections()
  await new Promise((done) => receiver.close(done))
})

async function listen(path: string, more: object, key = service.apiKey): Promise<CreatedWebhook> {
  const json = { url: `http://${host}/${path}`, ...more }
  const headers = { authorization: `Bearer ${key}` }
  const { status, body } = await service.json<CreatedWebhook>('/v1/preview/webhooks', { json, headers })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

const upload = async (rows: readonly object[], purpose: 'fine-tune' | 'batch') => {
  const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  return (await client.files.create({ file: await toFile(Buffer.from(text), 'rows.jsonl'), purpose })).id
}

const typesAt = (path: string) =>
  received.flatMap((each) => (each.path === `/${path}` ? [(JSON.parse(each.body) as { type: string }).type] : []))

const grader = {
  ...{ type: 'string_check' as const, name: 'holds', operation: 'ilike' as const },
  ...{ input: '{{sample.output_text}}', reference: '{{item.part}}' },
}

it('tells of a batch that ended, and of one whose lines are wrong, as the client reads it', async () => {
  const { secret, id } = await listen('a', { events: ['batch.completed', 'batch.failed'] })
  const body = { model: MODEL, messages }
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body }
  const wanted = { endpoint: '/v1/chat/completions', completion_window: '24h' } as const
  const right = await client.batches.create({ ...wanted, input_file_id: await upload([line], 'batch') })
  await until(() => received.length >= 1, 'a delivery')
  const wrong = await client.batches.create({ ...wanted, input_file_id: await upload([{}], 'batch') })
  await until(() => received.length >= 2, 'another')
  const events = await Promise.all(
    received.map(({ headers, body: text }) => client.webhooks.unwrap(text, headers as Record<string, string>, secret)),
  )
  expect(events).toMatchObject([
    { object: 'event', type: 'batch.completed', data: { id: right.id }, id: expect.stringMatching(/^evt_/) },
    { object: 'event', type: 'batch.failed', data: { id: wrong.id } },
  ])
  expect(Math.abs((events[0]?.created_at ?? 0) - Date.now() / 1000)).toBeLessThan(60)
  await expect(client.webhooks.unwrap('{}', received[0]?.headers as Record<string, string>, secret)).rejects.toThrow()
  await service.fetch(`/v1/preview/webhooks/${id}`, { method: 'DELETE' })
})

it('tells of supervised jobs beside what it tells of their training jobs', async () => {
  const { id } = await listen('b', {})
  const answer = { role: 'assistant', content: 'e' }
  const file = await upload(Array(4).fill({ messages: [...messages, answer] }), 'fine-tune')
  const job = await client.fineTuning.jobs.create({ model: MODEL, training_file: file })
  await until(() => typesAt('b').length >= 4, 'four deliveries')
  expect(typesAt('b').sort()).toEqual([
    ...['checkpoint.created', 'fine_tuning.job.succeeded', 'training_job.completed', 'training_job.started'],
  ])
  const told = received.find(({ body }) => body.includes('fine_tuning.job'))
  expect(JSON.parse(told?.body ?? '')).toMatchObject({ data: { id: job.id } })
  await service.fetch(`/v1/preview/webhooks/${id}`, { method: 'DELETE' })
})

it('tells of a reinforcement job in both words, and of a loop in its own, those who may see it', async () => {
  const events = ['loop.cancelled', 'fine_tuning.job.cancelled']
  await listen('own', { events })
  await listen('project', { events, project: 'elsewhere' })
  const { key } = await service.createKey({ entity: 'others' })
  await listen('others', { events }, key)
  const rows = ['e', 'a', 'i', 'o', 't', 'n'].map((part) => ({ messages, part }))
  const file = await upload(rows, 'fine-tune')
  const method = { type: 'reinforcement' as const, reinforcement: { grader } }
  const job = await client.fineTuning.jobs.create({ model: MODEL, training_file: file, method })
  await client.fineTuning.jobs.cancel(job.id)
  const json = { model_id: await service.createModel('own'), prompts_file: file, grader }
  const loop = (await service.json<{ id: string }>('/v1/preview/loops', { json })).body.id
  await service.fetch(`/v1/preview/loops/${loop}/cancel`, { method: 'POST' })
  await until(() => typesAt('own').length >= 3, 'three deliveries')
  const told = received.map(({ body }) => JSON.parse(body) as { type: string; data: { id: string } })
  expect(told.map(({ type, data }) => [type, data.id]).sort()).toEqual(
    [
      ['fine_tuning.job.cancelled', job.id],
      ['loop.cancelled', job.id.replace('ftjob-', '')],
      ['loop.cancelled', loop],
    ].sort(),
  )
  expect(received.map(({ path }) => path)).toEqual(['/own', '/own', '/own'])
})
