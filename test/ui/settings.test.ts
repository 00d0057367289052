/**
 * Settings in a real browser: webhooks with what became of their messages, at a receiver that refuses the first, and usage as the API
 * counts it.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { UsageResponse } from '#contract/wire/access/usage.js'
import type { List } from '#contract/wire/list.js'
import type { Webhook, WebhookDelivery } from '#contract/wire/webhooks/webhooks.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

let receiver: Server
let service: TestService
let browser: Browser
let token: string
let host: string
let status = 500
const received: string[] = []

describe.skipIf(CHROMIUM === null)('the settings of the page', () => {
  beforeAll(async () => {
    receiver = createServer((request, response) => {
      request.resume().on('end', () => {
        received.push(String(request.headers['webhook-id']))
        response.writeHead(status).end()
      })
    })
    await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done))
    host = `127.0.0.1:${(receiver.address() as AddressInfo).port}`
    service = await createTestService({
      webhookHosts: [host],
      tuning: { plugins: { webhooks: { pollMs: 20, retryMs: [20] } } },
    })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
    receiver?.closeAllConnections()
    await new Promise((done) => receiver.close(done))
  })

  const signedIn = () => openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, { token })

  test('a webhook is added, tells why a message failed, sends it again, and is deleted after one question', async () => {
    const window = await signedIn()
    const { context, page } = window
    await page.goto('/ui/settings')
    await page.getByText('Nobody is told when a job ends').waitFor()
    await page.getByLabel('Address').fill('ftp://nowhere.invalid')
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    await page.getByRole('alert').waitFor()
    expect((await window.problems()).every((text) => /status of 4\d\d/.test(text))).toBe(true)
    await page.getByLabel('Address').fill(`http://${host}/hook`)
    await page.getByLabel('training_job.started').uncheck()
    await page.getByLabel('checkpoint.created').uncheck()
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    await page.getByText('whsec_').waitFor()
    const hooks = (await service.json<List<Webhook>>('/v1/preview/webhooks')).body.data
    expect(hooks).toHaveLength(1)
    const [hook] = hooks
    expect(hook?.events.slice(0, 3)).toEqual([
      'training_job.completed',
      'training_job.failed',
      'training_job.cancelled',
    ])
    for (const unchecked of ['training_job.started', 'checkpoint.created'])
      expect(hook?.events).not.toContain(unchecked)
    const modelId = await service.createModel('learner')
    const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: modelId, trajectory_groups: [sampleGroup()], experimental_config: { stand_in: { steps: 1 } } },
    })
    await service.waitForJob(job.body.id)
    const isFailed = async (): Promise<boolean> => {
      const sent = await service.json<List<WebhookDelivery>>(`/v1/preview/webhooks/${hooks[0]?.id}/deliveries`)
      return sent.body.data[0]?.status === 'failed'
    }
    await until(isFailed, 'every attempt failed')
    await page.getByRole('button', { name: 'What was sent' }).click()
    const sent = page.getByRole('list', { name: `Sent to http://${host}/hook` })
    await sent.getByText('failed', { exact: true }).waitFor()
    expect(await sent.textContent()).toContain('2 attempts · answered 500')
    expect(new URL(page.url()).searchParams.get('webhook')).toBe(hooks[0]?.id)
    await page.reload()
    await sent.getByText('What is sent').click()
    await sent.getByText(job.body.id).waitFor()
    await expectSound(window, 'settings-webhooks')
    status = 200
    const before = received.length
    await page.getByRole('button', { name: 'Send again' }).click()
    await until(() => received.length > before, 'it was sent again')
    expect(new Set(received).size, 'the same message').toBe(1)
    await until(async () => {
      await page.getByRole('button', { name: 'Look again' }).click()
      return (await sent.getByText('delivered', { exact: true }).count()) === 1
    }, 'the page says that it arrived')
    const after = received.length
    await page.getByRole('button', { name: 'Send a test' }).click()
    await sent.getByText('webhook.test', { exact: true }).waitFor()
    await until(() => received.length > after, 'the test arrived')
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('dialog').getByText(host).waitFor()
    await page.getByRole('button', { name: 'Delete the webhook' }).click()
    await page.getByText('Nobody is told when a job ends').waitFor()
    expect((await service.json<List<Webhook>>('/v1/preview/webhooks')).body.data).toEqual([])
    await context.close()
  })

  test('usage by day, model and project adds up to what the API says; the choice is in the address', async () => {
    for (const content of ['Hello', 'Hello again'])
      await service.json('/v1/chat/completions', {
        json: { model: 'trainyard/tiny-random', messages: [{ role: 'user', content }] },
      })
    const usageOf = async (): Promise<UsageResponse> => (await service.json<UsageResponse>('/v1/usage')).body
    await until(async () => (await usageOf()).total.requests === 2, 'both are counted')
    const { total } = await usageOf()
    const window = await signedIn()
    const { context, page } = window
    await page.goto('/ui/settings')
    await page.getByRole('combobox', { name: /^By/ }).selectOption('model')
    const table = page.getByRole('region', { name: 'Usage by model' })
    await table.getByRole('row', { name: /tiny-random/ }).waitFor()
    const cells = await table
      .getByRole('row', { name: /^Total/ })
      .getByRole('cell')
      .allTextContents()
    expect(cells.slice(0, 4)).toEqual(
      [total.requests, total.prompt_tokens, total.cached_tokens, total.completion_tokens].map((count) =>
        count.toLocaleString('en'),
      ),
    )
    await page.reload()
    await table.waitFor()
    expect(new URL(page.url()).searchParams.get('usage')).toBe('model')
    await expectSound(window, 'settings-usage')
    await page.getByRole('combobox', { name: /^By/ }).selectOption('key')
    const keys = page.getByRole('region', { name: 'Usage by key' })
    await keys.getByRole('row').nth(1).waitFor()
    expect(await keys.getByRole('row').nth(1).getByRole('cell').allTextContents()).toEqual(cells.slice(0, 4))
    await expectSound(window, 'settings-usage-key')
    await context.close()
  })

  test('who may only read sees webhooks and why it cannot add one', async () => {
    const { body } = await service.json<{ token: string }>('/v1/preview/sessions', { json: { scope: 'read' } })
    const { context, page, problems } = await openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, {
      token: body.token,
    })
    await page.goto('/ui/settings')
    await page.getByText('Adding one needs a key of scope write').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })
})
