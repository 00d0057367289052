/**
 * From a fresh server to a curve that grows without a terminal: the demo is run by a button, one at a time, seen by whose it is,
 * stopped, and leaves its model and nothing else.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

/** A step of it takes seconds on a machine of its own, and minutes on a busy one. What waits for something that does not come says so before. */
const PATIENCE_MS = 600_000
const WAIT_MS = 240_000
const PATH = '/v1/preview/demo'

interface Demo {
  readonly status: string
  readonly model_id: string | null
  readonly step: number
}

let service: TestService
let browser: Browser
let token: string

const ask = async (method: string, headers: Record<string, string> = {}, json: object = {}) =>
  await service.json<Demo & { error: { code: string } }>(PATH, {
    method,
    headers,
    ...(method === 'POST' ? { json } : {}),
  })

const hasNoSession = async (): Promise<boolean> => {
  const { body } = await service.json<{ data: { name: string }[] }>('/v1/preview/sessions')
  return body.data.every(({ name }) => name !== 'demo')
}

describe.skipIf(CHROMIUM === null)('the demo on the page', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'] })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('runs because a button is pressed, and its curve grows', { timeout: PATIENCE_MS }, async () => {
    const window = await openWindow(browser, service.url, { token })
    const { context, page, problems } = window
    context.setDefaultTimeout(WAIT_MS)
    await page.goto('/ui/')
    const start = page.getByRole('button', { name: 'Run the demo' })
    await start.waitFor()
    await expectSound(window, 'fresh')
    expect((await ask('GET')).body.status).toBe('idle')
    expect((await ask('POST', {}, { base_model: 'org/none' })).body.error.code).toBe('base_model_not_found')

    await start.click()
    const line = page.getByRole('region', { name: 'Demo' })
    await line.getByRole('link', { name: 'Watch its curve' }).waitFor()
    const running = (await ask('GET')).body
    expect(running.status).toBe('running')
    // who asks again is told of the one that runs; others see nothing of it, and wait
    expect((await ask('POST')).body.model_id).toBe(running.model_id)
    const stranger = {
      authorization: `Bearer ${(await service.createKey({ entity: 'stranger', scope: 'write' })).key}`,
    }
    expect((await ask('GET', stranger)).body).toMatchObject({ status: 'idle', model_id: null })
    const refused = await ask('POST', stranger)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'demo_running'])
    expect((await ask('DELETE', stranger)).body.status).toBe('idle')
    // whichever step the page asks at: on a fast machine the first ones pass between two of its questions, and all may be over here
    await line.getByText(/at step \d+/).waitFor()
    await expectSound(window, 'demo')

    await line.getByRole('link', { name: 'Watch its curve' }).click()
    await page.locator('.u-over').first().waitFor()
    expect((await service.json(`/v1/preview/models/${running.model_id}`)).status).toBe(200)
    expect(await problems()).toEqual([])
    await context.close()
    await ask('DELETE')
    await until(hasNoSession, 'the end of its session')
  })

  test('is stopped by a button, and its model stays', { timeout: PATIENCE_MS }, async () => {
    const before = (await ask('GET')).body.model_id
    await ask('POST')
    const { context, page, problems } = await openWindow(browser, service.url, { token })
    context.setDefaultTimeout(WAIT_MS)
    await page.goto('/ui/')
    const line = page.getByRole('region', { name: 'Demo' })
    await line.getByRole('link', { name: 'Watch its curve' }).waitFor() // its model is made
    await line.getByRole('button', { name: 'Stop the demo' }).click()
    await line.getByText('was stopped').waitFor()
    const { body } = await ask('GET')
    expect(body.status).toBe('stopped')
    await until(hasNoSession, 'the end of its session')
    expect(body.model_id).not.toBe(before)
    expect((await service.json(`/v1/preview/models/${body.model_id}`)).status).toBe(200)
    expect(await problems()).toEqual([])
    await context.close()
  })
})
