/**
 * Webhooks against a real receiver: what is sent, how it is signed, and what happens when the receiver or the server is away.
 */
import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CreatedWebhook, WebhookDelivery } from '#contract/wire/webhooks/webhooks.js'
import type { Fetch } from '#sdk/client/light-fetch.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { runCli } from '../../../support/service/run-cli.js'
import { until } from '../../../support/until.js'

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

let receiver: Server
let received: Received[]
/** Connections are closed without an answer: its port stays its own. */
let isDown: boolean
/** Statuses to answer with, one after the other; then 200. */
let answers: number[]
let service: TestService
let host: string

beforeEach(async () => {
  received = []
  answers = []
  isDown = false
  receiver = createServer((request, response) => {
    if (isDown) return void request.socket.destroy()
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      received.push({ headers: request.headers, body })
      const status = answers.shift() ?? 200
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end()
    })
  })
  await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done))
  host = `127.0.0.1:${(receiver.address() as AddressInfo).port}`
  service = await createTestService(settings())
})
afterEach(async () => {
  await service.dispose()
  receiver.closeAllConnections()
  await new Promise((done) => receiver.close(done))
})

const settings = () => ({
  webhookHosts: [host],
  tuning: { plugins: { webhooks: { pollMs: 20, retryMs: [30, 30, 30] } } },
})

async function createWebhook(more: object = {}): Promise<CreatedWebhook> {
  const { status, body } = await service.json<CreatedWebhook>('/v1/preview/webhooks', {
    json: { url: `http://${host}/hook`, ...more },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

async function runJob(name = 'm'): Promise<string> {
  const model = await service.createModel(name)
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: model, trajectory_groups: [sampleGroup()] },
  })
  await service.waitForJob(body.id)
  return body.id
}

async function deliveries(id: string): Promise<WebhookDelivery[]> {
  return (await service.json<{ data: WebhookDelivery[] }>(`/v1/preview/webhooks/${id}/deliveries?limit=100`)).body.data
}

const typesOf = (list: readonly Received[]) =>
  list.map(({ body }) => (JSON.parse(body) as { type: string }).type).sort()
const ALL = ['checkpoint.created', 'training_job.completed', 'training_job.started']

describe('delivery', () => {
  it('tells of a job and its checkpoint, signed', async () => {
    await runJob('before')
    const webhook = await createWebhook()
    expect(webhook.secret).toMatch(/^whsec_/)
    const job = await runJob()
    await until(() => received.length >= 3, 'three deliveries')
    expect(typesOf(received)).toEqual(ALL)
    for (const { headers, body } of received) {
      const key = Buffer.from(webhook.secret.slice('whsec_'.length), 'base64')
      const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
      expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
      expect(headers['content-type']).toBe('application/json')
      expect(body).toContain(job)
    }
    await until(
      async () => (await deliveries(webhook.id)).every(({ status }) => status === 'delivered'),
      'all delivered',
    )
    const listed = await service.fetch('/v1/preview/webhooks')
    expect(await listed.text()).not.toContain(webhook.secret)
  })

  it('tells only what was asked for', async () => {
    await createWebhook({ events: ['training_job.completed'] })
    await createWebhook({ project: 'elsewhere' })
    await runJob()
    await until(() => received.length >= 1, 'a delivery')
    await sleep(100)
    expect(typesOf(received)).toEqual(['training_job.completed'])
  })

  it('is tried again, with the same id, then given up, and sent again when asked', async () => {
    const webhook = await createWebhook({ events: ['training_job.completed'] })
    answers = [500, 302, 404, 503]
    await runJob()
    await until(async () => (await deliveries(webhook.id))[0]?.status === 'failed', 'the last failure')
    expect(received).toHaveLength(4)
    expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(new Set(received.map(({ body }) => body)).size).toBe(1)
    const [failed] = await deliveries(webhook.id)
    expect(failed).toMatchObject({
      attempts: 4,
      response_status: 503,
      error: 'the receiver answered 503',
      next_attempt_at: null,
    })
    const again = await service.json<WebhookDelivery>(
      `/v1/preview/webhooks/${webhook.id}/deliveries/${failed?.id}/redeliver`,
      { method: 'POST' },
    )
    // it may have been sent before this answer was
    expect(again.body).toMatchObject({ message_id: failed?.message_id, type: 'training_job.completed' })
    await until(async () => (await deliveries(webhook.id))[0]?.status === 'delivered', 'the delivery')
    expect(received).toHaveLength(5)
  })

  it('of a test: signed, whatever its events, tried again and noted as any other', async () => {
    const webhook = await createWebhook({ events: ['training_job.failed'], project: 'elsewhere' })
    answers = [500]
    const path = `/v1/preview/webhooks/${webhook.id}/test`
    const { status, body } = await service.json<WebhookDelivery>(path, { method: 'POST' })
    expect([status, body.type]).toEqual([200, 'webhook.test'])
    await until(async () => (await deliveries(webhook.id))[0]?.status === 'delivered', 'the delivery')
    expect(await deliveries(webhook.id)).toMatchObject([{ id: body.id, attempts: 2, response_status: 200 }])
    expect(received).toHaveLength(2)
    const [{ headers, body: sent }] = received as [Received]
    expect(JSON.parse(sent)).toMatchObject({ type: 'webhook.test', data: { id: webhook.id, url: webhook.url } })
    expect(sent).not.toContain(webhook.secret)
    const key = Buffer.from(webhook.secret.slice('whsec_'.length), 'base64')
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${sent}`
    expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
    expect((await service.fetch('/v1/preview/webhooks/nothing/test', { method: 'POST' })).status).toBe(404)
    const { key: foreign } = await service.createKey({ project: 'other' })
    const headersOf = { authorization: `Bearer ${foreign}` }
    expect((await service.fetch(path, { method: 'POST', headers: headersOf })).status).toBe(404)
  })

  it('is read and repeated from the command line', async () => {
    const webhook = await createWebhook({ events: ['training_job.completed'] })
    await runJob()
    await until(async () => (await deliveries(webhook.id))[0]?.status === 'delivered', 'the delivery')
    const fetch: Fetch = async (...request) => service.app.fetch(new Request(...request))
    const run = (...argv: string[]) =>
      runCli(['webhooks', ...argv], {
        fetch,
        env: { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey },
      })
    const shown = await run('deliveries', webhook.id)
    expect(shown.stdout).toMatch(/training_job\.completed\s+delivered\s+1\s+200/)
    const [first] = await deliveries(webhook.id)
    const again = await run('redeliver', webhook.id, first?.id ?? '', '-q')
    expect(again.exitCode, again.stderr).toBe(0)
    await until(() => received.length >= 2, 'the repeated delivery')
    expect(received[1]?.headers['webhook-id']).toBe(received[0]?.headers['webhook-id'])
    expect((await deliveries(webhook.id))[0]?.id).toBe(again.stdout.trim())
    expect((await run('redeliver', webhook.id, 'nothing')).exitCode).toBe(3)
    const tested = await run('test', webhook.id, '-q')
    expect(tested.exitCode, tested.stderr).toBe(0)
    expect((await deliveries(webhook.id))[0]).toMatchObject({ id: tested.stdout.trim(), type: 'webhook.test' })
  })

  it('goes on after a restart, and a job never waits for it', async () => {
    const webhook = await createWebhook({ events: ['training_job.completed'] })
    isDown = true
    await runJob()
    await until(async () => ((await deliveries(webhook.id))[0]?.attempts ?? 0) > 0, 'an attempt')
    isDown = false
    service = await service.restart({
      ...settings(),
      tuning: { plugins: { webhooks: { pollMs: 20, retryMs: Array(500).fill(30) } } },
    })
    const [first] = await deliveries(webhook.id)
    if (first?.status === 'failed') {
      await service.fetch(`/v1/preview/webhooks/${webhook.id}/deliveries/${first.id}/redeliver`, { method: 'POST' })
    }
    await until(() => received.length > 0, 'the delivery')
    expect(typesOf(received)).toEqual(['training_job.completed'])
  })
})

describe('addresses', () => {
  it('private ones, other schemes and user names are refused', async () => {
    const urls = [
      'http://example.com/hook',
      'https://127.0.0.1/hook',
      'https://[::1]/hook',
      'https://[::ffff:10.0.0.1]/hook',
      'https://169.254.169.254/latest',
      'https://0x7f.1/hook',
      'https://2130706433/hook',
      'https://localhost/hook',
      'https://printer.local/hook',
      'https://intranet/hook',
      'https://user:word@example.com/hook',
      'file:///etc/passwd',
      'gopher://example.com',
      'not an address',
    ]
    for (const url of urls) {
      const { status, body } = await service.json<{ error: { code: string } }>('/v1/preview/webhooks', {
        json: { url },
      })
      expect([url, status, body.error.code]).toEqual([url, 422, 'webhook_refused'])
    }
  })
  it('public ones over https are taken, and belong to their entity', async () => {
    const webhook = await createWebhook({ url: 'https://example.com/hook' })
    const foreign = { headers: { authorization: `Bearer ${'x'.repeat(40)}` } }
    expect((await service.fetch(`/v1/preview/webhooks/${webhook.id}`, foreign)).status).toBe(401)
    expect((await service.fetch(`/v1/preview/webhooks/${webhook.id}`)).status).toBe(200)
    const deleted = await service.json(`/v1/preview/webhooks/${webhook.id}`, { method: 'DELETE' })
    expect(deleted.body).toEqual({ id: webhook.id, object: 'webhook', deleted: true })
    expect((await service.fetch(`/v1/preview/webhooks/${webhook.id}`)).status).toBe(404)
  })
})
